"""The shortest store that keeps every promise: what a store should have seen, by the arithmetic in `limen.core`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from limen.core.algorithm import Seen
from limen.stores.base import Op, bucket_name

__all__ = ["Model"]

Key = tuple[str, str]


class Kept(NamedTuple):
    """What is known of a bucket."""

    state: Any = None
    granted: int = 0
    until_us: int = 0


class Model:
    """Buckets under a clock that only moves on. It forgets nothing."""

    def __init__(self) -> None:
        self._kept: dict[Key, Kept] = {}

    def take(self, ops: Sequence[Op], now_us: int) -> list[Seen]:
        seen = [self._look(op, now_us) for op in ops]
        fits = [op.limit.allows(each, op.cost) for op, each in zip(ops, seen, strict=True)]
        if all(fit for op, fit in zip(ops, fits, strict=True) if op.enforce):
            for op, fit in zip(ops, fits, strict=True):
                if fit and op.spend and op.cost:
                    self._spend(op, now_us)
        return seen

    def grant(self, op: Op, tokens: int, for_us: int, now_us: int) -> Seen:
        state, granted, until_us = self._of(op, now_us)
        self._kept[_key(op)] = Kept(state, granted + tokens, max(until_us, now_us + for_us))
        return self._look(op._replace(cost=0), now_us)

    def reset(self, op: Op) -> None:
        self._kept.pop(_key(op), None)

    def _look(self, op: Op, now_us: int) -> Seen:
        state, granted, _ = self._of(op, now_us)
        return op.limit.raised(op.limit.look(state, now_us, op.cost - granted), granted)

    def _spend(self, op: Op, now_us: int) -> None:
        """Its own tokens first, then what was granted."""
        state, granted, until_us = self._of(op, now_us)
        own = min(op.cost, op.limit.remaining(op.limit.look(state, now_us, 0)))
        self._kept[_key(op)] = Kept(op.limit.spend(state, now_us, own), granted - op.cost + own, until_us)

    def _of(self, op: Op, now_us: int) -> Kept:
        kept = self._kept.get(_key(op), Kept())
        return kept if kept.until_us > now_us and kept.granted else Kept(kept.state)


def _key(op: Op) -> Key:
    return op.identity, bucket_name(op.rule, op.limit.algorithm)
