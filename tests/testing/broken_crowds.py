"""Stores that go wrong among many callers, or for errors: each has one mistake of the kind that is easily made."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import sleep

from limen.core.algorithm import Seen
from limen.core.concurrency import SlotsSeen
from limen.errors import StoreError
from limen.stores.base import Op, Slot
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from tests.testing.mistakes import breaks


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
