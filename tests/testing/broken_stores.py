"""Stores with one mistake each, of the kinds that are easily made. `BREAKS` says which promise each breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import sleep
from typing import Any

from limen.core.algorithm import Seen
from limen.core.concurrency import SlotsSeen
from limen.errors import StoreError
from limen.stores.base import Op, Slot
from limen.stores.memory import AsyncMemoryStore, MemoryStore
from limen.testing import ManualClock

__all__ = ["BREAKS", "make"]

BREAKS: dict[type, str] = {}
"""A promise that each store breaks."""


def breaks(promise: str) -> Callable[[type], type]:
    def note(store: type) -> type:
        BREAKS[store] = promise
        return store

    return note


def make(store: type, clock: ManualClock) -> Any:
    local = MemoryStore(clock.now_us)
    return store(local) if issubclass(store, AsyncMemoryStore) else store(clock.now_us)


@breaks("when one is refused nothing is taken, whoever the others belong to")
class OneAfterTheOther(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return [seen for op in ops for seen in super(OneAfterTheOther, self).take([op])]


@breaks("a cost is taken once, and the answer is what was there before")
class Twice(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        found = super().take(ops)
        super().take(ops)
        return found


@breaks("a cost is taken once, and the answer is what was there before")
class Afterwards(MemoryStore):
    """Answers with what is left."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        super().take(ops)
        return super().take([op._replace(spend=False) for op in ops])


@breaks("what does not spend is answered as if, and takes nothing")
class SpendsAlways(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return super().take([op._replace(spend=True) for op in ops])


@breaks("a shadow operation stops nobody, and takes nothing when its tokens are not there")
class EnforcesAlways(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return super().take([op._replace(enforce=True) for op in ops])


@breaks("a shadow operation is taken when its tokens are there")
class ShadowsAreFree(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return super().take([op._replace(spend=op.spend and op.enforce) for op in ops])


@breaks("large numbers are exact")
class Floats(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return [float(seen) if type(seen) is int else seen for seen in super().take(ops)]


@breaks("the order of the operations does not matter, and answers come in that order")
class Sorted(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return super().take(sorted(ops, key=lambda op: (op.identity, op.rule)))


@breaks("another algorithm counts in another bucket")
class Renamed(MemoryStore):
    """Any change of a limit begins a new bucket, and any algorithm goes by one name."""

    def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        self.clear()

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        limits = {op.limit.algorithm for op in ops}
        if limits != getattr(self, "_limits", limits):
            self.clear()
        self._limits = limits
        return super().take(ops)


@breaks("a changed limit keeps what was spent")
class Versioned(MemoryStore):
    """Has the capacity in the name of the bucket."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return super().take([op._replace(rule=f"{op.rule} {op.limit.capacity}") for op in ops])


@breaks("clients have their own buckets, whatever their names")
class Joined(MemoryStore):
    """Ignores the case and the spaces of names."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return super().take([op._replace(identity=op.identity.lower().replace(" ", "")) for op in ops])


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


@breaks("callers at the same moment get exactly what is there")
class WithoutLock(MemoryStore):
    """Looks, then takes: others may look in between."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        found = super().take([op._replace(spend=False) for op in ops])
        sleep(0)
        if all(op.limit.allows(seen, op.cost) for op, seen in zip(ops, found, strict=True) if op.enforce):
            super().take(ops)
        return found


@breaks("callers at the same moment get exactly what is there")
class AwaitsBetween(AsyncMemoryStore):
    """The same for coroutines."""

    async def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        found = self.local.take([op._replace(spend=False) for op in ops])
        await asyncio.sleep(0)
        self.local.take(ops)
        return found


@breaks("callers at the same moment hold exactly the slots that there are")
class AcquiresInTwoSteps(AsyncMemoryStore):
    async def acquire(self, slot: Slot) -> SlotsSeen:
        free = self.local.acquire(slot._replace(holder="nobody"))
        self.local.release(slot._replace(holder="nobody"))
        await asyncio.sleep(0)
        self.local.acquire(slot._replace(limit=slot.limit.__class__(100_000)))
        return free


@breaks("a reset of what nobody knows is no error")
class RaisesItsOwn(MemoryStore):
    def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        del self._cells[identity, rule or ""]


@breaks("a new client has everything")
class IsDown(AsyncMemoryStore):
    async def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        raise StoreError("nobody answers")


@breaks("operations with one label are decided in one step")
class NeverAtomic(MemoryStore):
    def atomic(self, ops: Sequence[Op]) -> bool:
        return False


@breaks("sliding_window counts by the arithmetic")
class Drifts(MemoryStore):
    """Reads its clock in milliseconds."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        super().__init__(lambda: now_us() // 1000 * 1000)
