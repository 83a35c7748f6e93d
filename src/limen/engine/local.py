"""What a gateway knows by itself: who was just refused, and its share of every limit while the store is away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from limen.core.limit import Limit
from limen.stores.base import Op
from limen.stores.memory import MemoryStore

__all__ = ["DenyCache", "LocalShares"]

Key = tuple[str, str]


class Refusal(NamedTuple):
    """The level that a bucket had at most, when it refused."""

    level: int
    at_us: int
    until_us: int
    limit: Limit


class DenyCache:
    """Remembers refusals until they could succeed, for a second at most.

    It keeps the bucket's level, not the refusal: what the bucket can hold by now is known exactly as an upper bound
    (others may have spent since, nobody can have added), so a refused cost of 10 never stops a cost of 1. An entry
    is good for the very limit that refused; a changed rule brings a new one.

    Args:
        max_entries: the most that are remembered; beyond it those with the shortest time left go.
    """

    LONGEST_US = 1_000_000

    def __init__(self, max_entries: int = 100_000) -> None:
        self.entries: dict[Key, Refusal] = {}
        self._max_entries = max_entries

    def __len__(self) -> int:
        return len(self.entries)

    def level(self, op: Op, now_us: int) -> int | None:
        """The most that the bucket can hold, when that is known to be less than `op` costs; else None."""
        entry = self.entries.get((op.identity, op.rule))
        if entry is None:
            return None
        level, at_us, until_us, limit = entry
        if now_us >= until_us or limit is not op.limit:
            self.entries.pop((op.identity, op.rule), None)
            return None
        level += (now_us - at_us) * limit.ticks_per_us
        return level if level < op.cost * limit.token_ticks else None

    def remember(self, op: Op, level: int, asked_us: int) -> None:
        """Note that `op` was refused at `level`. `asked_us` is before the question left, so that waits never grow."""
        limit = op.limit
        missing = op.cost * limit.token_ticks - level
        wait_us = -(-missing // limit.ticks_per_us) if limit.ticks_per_us else self.LONGEST_US
        if len(self.entries) >= self._max_entries:
            self._make_room(asked_us)
        self.entries[op.identity, op.rule] = Refusal(level, asked_us, asked_us + min(wait_us, self.LONGEST_US), limit)

    def forget(self, identity: str, rule: str | None) -> None:
        """Forget one bucket, or all buckets of an identity."""
        for key in [key for key in list(self.entries) if key[0] == identity and rule in (None, key[1])]:
            self.entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything: the rules changed."""
        self.entries.clear()

    def _make_room(self, now_us: int) -> None:
        kept = sorted(self.entries.items(), key=lambda item: item[1].until_us)[self._max_entries // 10 :]
        self.entries = {key: entry for key, entry in kept if entry.until_us > now_us}


class LocalShares:
    """This gateway's part of each limit, C/N and r/N, spent while the store cannot answer.

    A share begins with a tenth of its part, because the client may just have spent its limit elsewhere; a part of
    less than one token is saved up for, never rounded up. Shares of an outage are forgotten in the next one.

    Args:
        now_us: the local clock.
        gateways: N, how many processes decide.
    """

    START = Fraction(1, 10)
    NEW_OUTAGE_US = 10_000_000
    MAX_SHARES = 10_000

    def __init__(self, now_us: Callable[[], int], gateways: int) -> None:
        self._gateways = gateways
        self._store = MemoryStore(now_us)
        self._shares: dict[tuple[Limit, int], Limit] = {}
        self._last_used_us = 0

    def parts(self, ops: Sequence[Op]) -> list[Op]:
        """The same operations on this gateway's parts of the limits."""
        return [op._replace(limit=self._share(op)) for op in ops]

    def take(self, parts: Sequence[Op], now_us: int) -> list[int]:
        """Decide and take, as a store does; the levels before it."""
        if now_us - self._last_used_us > self.NEW_OUTAGE_US:
            self._store.clear()
        self._last_used_us = now_us
        return self._store.take(parts)

    def forget(self, identity: str, rule: str | None) -> None:
        """Forget one bucket, or all buckets of an identity."""
        self._store.reset(identity, rule)

    def _share(self, op: Op) -> Limit:
        room = min(max(1, op.cost), op.limit.capacity)
        share = self._shares.get((op.limit, room))
        if share is None:
            if len(self._shares) > self.MAX_SHARES:
                self._shares.clear()
            share = self._shares[op.limit, room] = op.limit.share(self._gateways, self.START, room)
        return share
