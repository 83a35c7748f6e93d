"""Stores that keep, give or hold wrongly: each has one mistake of the kind that is easily made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from limen.core.algorithm import Seen
from limen.core.concurrency import SlotsSeen
from limen.stores.base import Op, Slot
from limen.stores.memory import MemoryStore
from tests.testing.mistakes import breaks


@breaks("a bucket is remembered until everything is there again")
class ForgetsEarly(MemoryStore):
    """Keeps a bucket for nine tenths of the time in which it fills."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        now_us, ends = self._now_us(), self.__dict__.setdefault("ends", {})
        for op in ops:
            if now_us >= ends.get(op.identity, now_us + 1):
                super().reset(op.identity, None)
                del ends[op.identity]
        found = super().take(ops)
        for op, seen in zip(ops, found, strict=True):
            if op.cost and op.limit.allows(seen, op.cost):
                ends[op.identity] = (
                    now_us + (op.limit.reset_after_us(op.limit.after(seen, op.cost)) or 10**18) * 9 // 10
                )
        return found


@breaks("a client that is held back stays so, however many others come")
class Bounded(MemoryStore):
    """Forgets whoever came first when it is full."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        if len(self) >= 900:
            self._cells.popitem(last=False)
        return super().take(ops)


@breaks("a clock that steps back locks nobody out for longer than it takes to fill")
class WaitsForTheFuture(MemoryStore):
    """Takes time for something that never goes back."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        latest = [0]

        def forward_us() -> int:
            latest[0] = max(latest[0], now_us())
            return latest[0]

        super().__init__(forward_us)


@breaks("a clock that steps back gives nothing")
class BeginsAnew(MemoryStore):
    """Begins with full buckets when the clock steps back."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        now_us = self._now_us()
        if now_us < getattr(self, "_latest_us", now_us):
            self.clear()
        self._latest_us = now_us
        return super().take(ops)


@breaks("a look, a refusal and a grant begin no window")
class LooksBegin(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        found = super().take(ops)
        for op in ops:
            key = (op.identity, f"{op.rule} {op.limit.algorithm}")
            if op.limit.algorithm != "token_bucket" and key not in self._cells:
                self._cells.put(key, op.limit.spend(None, self._now_us(), 0), self._now_us(), op.limit)
        return found


@breaks("granted tokens lapse at their end, and not before")
class GrantsForEver(MemoryStore):
    def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        return super().grant(op, tokens, 10**15)


@breaks("a bucket's own tokens are spent before granted ones")
class GrantedFirst(MemoryStore):
    """Counts what is granted as if it had been given back."""

    def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        self._from_grants = True
        return super().grant(op, tokens, for_us)

    def _spend(self, found: Any) -> None:
        granted = min(found.op.cost, found.grant.tokens)
        self._grants[found.key] = found.grant._replace(tokens=found.grant.tokens - granted)
        super()._spend(found._replace(op=found.op._replace(cost=found.op.cost - granted)))


@breaks("a grant does not make a cost above the capacity possible")
class GrantsBursts(MemoryStore):
    """Passes what is there, whatever the capacity."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        found = super().take([op._replace(spend=False) for op in ops])
        for op, seen in zip(ops, found, strict=True):
            if op.spend and op.limit.capacity < op.cost <= op.limit.remaining(seen):
                super().take([op._replace(cost=op.limit.capacity)])
                super().take([op._replace(cost=op.cost - op.limit.capacity)])
        super().take(ops)
        return found


@breaks("a reset makes a bucket full again, and no other")
class ResetsTooMuch(MemoryStore):
    def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        super().reset(identity, None)


@breaks("a reset of a rule reaches its bucket of every algorithm")
class ResetsOneAlgorithm(MemoryStore):
    def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        if rule is None:
            super().reset(identity, rule)
        else:
            self._cells.pop((identity, rule), None)


@breaks("nobody can let go or renew what another holds")
class AnybodyLetsGo(MemoryStore):
    def release(self, slot: Slot) -> bool:
        self._slots.clear()
        return True


@breaks("letting go twice frees one slot")
class CountsSlots(MemoryStore):
    """Counts holders instead of knowing them."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        super().__init__(now_us)
        self._count = 0

    def acquire(self, slot: Slot) -> SlotsSeen:
        held = self._count
        self._count += held < slot.limit.capacity
        return SlotsSeen(held, 0)

    def release(self, slot: Slot) -> bool:
        self._count -= 1
        return True


@breaks("a slot that has lapsed is neither renewed nor let go")
class RenewsWhatLapsed(MemoryStore):
    def renew(self, slot: Slot) -> bool:
        return self.acquire(slot).allows(slot.limit)
