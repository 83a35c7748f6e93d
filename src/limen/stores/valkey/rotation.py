"""While one secret replaces another, every bucket is kept under both.

A secret names buckets, so a new one alone would give every client a fresh bucket. During the grace period each
question is asked of the bucket by the new secret and of the one by the previous secret, all or nothing, and the one
nearest exhaustion answers. Gateways that know only the previous secret and those that know both then share the old
buckets; those that know both and those that know only the new one share the new buckets, which by then hold what was
spent. So no client is ever given more than its limit (`docs/operate.md` has the steps).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from limen.core.algorithm import AnyLimit, Seen
from limen.core.concurrency import SlotsSeen
from limen.stores.base import AsyncStore, Op, Slot, Store
from limen.stores.valkey.names import PREVIOUS

__all__ = ["AsyncRotatingStore", "RotatingStore"]


def doubled(ops: Sequence[Op]) -> list[Op]:
    """The operations, and the same on the buckets by the previous secret."""
    return [*ops, *map(before, ops)]


def before(op: Op) -> Op:
    """The same bucket by the previous secret."""
    return op._replace(identity=PREVIOUS + op.identity)


def slot_before(slot: Slot) -> Slot:
    return slot._replace(identity=PREVIOUS + slot.identity)


def nearest(ops: Sequence[Op], seen: Sequence[Seen]) -> list[Seen]:
    """Of the two answers for each bucket the one nearer exhaustion."""
    count = len(ops)
    return [nearer(op.limit, seen[index], seen[index + count]) for index, op in enumerate(ops)]


def nearer(limit: AnyLimit, one: Seen, other: Seen) -> Seen:
    return min(one, other, key=lambda seen: (limit.remaining(seen), -_reset(limit, seen)))


def fuller(one: SlotsSeen, other: SlotsSeen) -> SlotsSeen:
    return max(one, other)


def _reset(limit: AnyLimit, seen: Seen) -> float:
    reset_us = limit.reset_after_us(seen)
    return inf if reset_us is None else reset_us


class AsyncRotatingStore:
    """A store whose `Names` know two secrets."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    @property
    def state(self) -> str:
        return self._store.state

    async def start(self) -> None:
        await self._store.start()

    async def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        return nearest(ops, await self._store.take(doubled(ops)))

    def atomic(self, ops: Sequence[Op]) -> bool:
        return self._store.atomic(doubled(ops))

    async def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        old = await self._store.grant(before(op), tokens, for_us)
        return nearer(op.limit, await self._store.grant(op, tokens, for_us), old)

    async def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        await self._store.reset(PREVIOUS + identity, rule, colocate)
        await self._store.reset(identity, rule, colocate)

    async def acquire(self, slot: Slot) -> SlotsSeen:
        new, old = await self._store.acquire(slot), await self._store.acquire(slot_before(slot))
        seen = fuller(new, old)
        if not seen.allows(slot.limit):
            await self.release(slot)
        return seen

    async def renew(self, slot: Slot) -> bool:
        renewed = await self._store.renew(slot_before(slot))
        return await self._store.renew(slot) and renewed

    async def release(self, slot: Slot) -> bool:
        await self._store.release(slot_before(slot))
        return await self._store.release(slot)

    async def close(self) -> None:
        await self._store.close()


class RotatingStore:
    """The same for code that blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def state(self) -> str:
        return self._store.state

    def start(self) -> None:
        self._store.start()

    def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        return nearest(ops, self._store.take(doubled(ops)))

    def atomic(self, ops: Sequence[Op]) -> bool:
        return self._store.atomic(doubled(ops))

    def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        old = self._store.grant(before(op), tokens, for_us)
        return nearer(op.limit, self._store.grant(op, tokens, for_us), old)

    def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        self._store.reset(PREVIOUS + identity, rule, colocate)
        self._store.reset(identity, rule, colocate)

    def acquire(self, slot: Slot) -> SlotsSeen:
        new, old = self._store.acquire(slot), self._store.acquire(slot_before(slot))
        seen = fuller(new, old)
        if not seen.allows(slot.limit):
            self.release(slot)
        return seen

    def renew(self, slot: Slot) -> bool:
        renewed = self._store.renew(slot_before(slot))
        return self._store.renew(slot) and renewed

    def release(self, slot: Slot) -> bool:
        self._store.release(slot_before(slot))
        return self._store.release(slot)

    def close(self) -> None:
        self._store.close()
