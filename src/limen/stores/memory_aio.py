"""Buckets in this process, for coroutines."""

from __future__ import annotations

from collections.abc import Sequence

from limen.core.algorithm import Seen
from limen.core.concurrency import SlotsSeen
from limen.core.limit import Limit
from limen.stores.base import Borrow, Charge, Charged, Lent, Op, Slot
from limen.stores.memory import MemoryStore

__all__ = ["AsyncMemoryStore"]


class AsyncMemoryStore:
    """A `MemoryStore` behind the interface for coroutines: nothing in it waits."""

    state = "memory"
    carries = True

    def __init__(self, store: MemoryStore) -> None:
        self.local = store

    async def start(self) -> None:
        """There is nothing to connect to."""

    async def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        op = ops[0]
        limit = op.limit
        if type(limit) is Limit and len(ops) == 1 and op.enforce and op.spend and op.carry is None:
            return (self.local.take_one((op.identity, op.rule), limit, op.cost * limit.token_ticks),)
        return self.local.take(ops)

    def atomic(self, ops: Sequence[Op]) -> bool:
        """Always: everything is under one lock."""
        return True

    async def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        return self.local.grant(op, tokens, for_us)

    async def borrow(self, borrow: Borrow) -> Lent:
        return self.local.borrow(borrow)

    async def charge(self, charge: Charge) -> Charged:
        return self.local.charge(charge)

    async def beat(self, gateway: str) -> tuple[int, int]:
        return self.local.beat(gateway)

    async def leave(self, gateway: str) -> None:
        """Nobody would see it."""

    async def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        self.local.reset(identity, rule)

    async def acquire(self, slot: Slot) -> SlotsSeen:
        return self.local.acquire(slot)

    async def renew(self, slot: Slot) -> bool:
        return self.local.renew(slot)

    async def release(self, slot: Slot) -> bool:
        return self.local.release(slot)

    async def close(self) -> None:
        self.local.close()
