"""While one secret replaces another, every bucket is kept under both.

A secret names buckets, so a new one alone would give every client a fresh bucket. During the grace period each
question is asked of the bucket by the new secret and of the one by the previous secret, all or nothing, and the one
nearest exhaustion answers. Gateways that know only the previous secret and those that know both then share the old
buckets; those that know both and those that know only the new one share the new buckets, which by then hold what was
spent. So no client is ever given more than its limit (`docs/operate.md` has the steps).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from limen.core.algorithm import AnyLimit, Seen
from limen.core.concurrency import SlotsSeen
from limen.core.delays import Delays
from limen.stores.base import AsyncSharedStore, Borrow, Charge, Charged, Lent, Op, SharedStore, Slot
from limen.stores.valkey.names import PREVIOUS
from limen.stores.valkey.returning import OnReturn, both_secrets

__all__ = ["AsyncRotatingStore", "RotatingStore"]


def doubled(ops: Sequence[Op]) -> list[Op]:
    """The operations, and the same on the buckets by the previous secret."""
    return [*ops, *map(before, ops)]


def before(op: Op) -> Op:
    """The same bucket by the previous secret."""
    return op._replace(identity=PREVIOUS + op.identity)


def slot_before(slot: Slot) -> Slot:
    return slot._replace(identity=PREVIOUS + slot.identity)


def charge_before(charge: Charge) -> Charge:
    return charge._replace(op=before(charge.op))


def most_of(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Of two counts of gateways the larger: some know one secret only."""
    return max(one[0], other[0]), max(one[1], other[1])


def borrow_before(borrow: Borrow) -> Borrow:
    return borrow._replace(op=before(borrow.op))


def no_more_than(lent: Lent, borrow: Borrow) -> Borrow:
    """The same question, for no more than the other bucket lent. What that lent beyond this one's answer is lost."""
    claim = borrow.claim._replace(left=min(borrow.claim.left, lent.kept))
    return Borrow(borrow.op._replace(cost=lent.tokens), claim)


def nearest(ops: Sequence[Op], seen: Sequence[Seen]) -> list[Seen]:
    """Of the two answers for each bucket the one nearer exhaustion."""
    count = len(ops)
    return [nearer(op.limit, seen[index], seen[index + count]) for index, op in enumerate(ops)]


def nearer(limit: AnyLimit, one: Seen, other: Seen) -> Seen:
    return min(one, other, key=lambda seen: (limit.remaining(seen), -_reset(limit, seen)))


def both_charged(limit: AnyLimit, one: Charged, other: Charged) -> Charged:
    return Charged(max(one.tokens, other.tokens), nearer(limit, one.seen, other.seen))


def fuller(one: SlotsSeen, other: SlotsSeen) -> SlotsSeen:
    return max(one, other)


def _reset(limit: AnyLimit, seen: Seen) -> float:
    reset_us = limit.reset_after_us(seen)
    return inf if reset_us is None else reset_us


class Rotating:
    """What both kinds tell of their servers."""

    carries = True

    _store: Any

    def __init__(self) -> None:
        self._on_return: OnReturn | None = None

    @property
    def state(self) -> str:
        return str(self._store.state)

    @property
    def shards(self) -> Mapping[str, str]:
        shards: Mapping[str, str] = self._store.shards
        return shards

    @property
    def delays(self) -> Mapping[str, Delays]:
        delays: Mapping[str, Delays] = self._store.delays
        return delays

    @property
    def memory_lost(self) -> Mapping[str, int]:
        losses: Mapping[str, int] = self._store.memory_lost
        return losses

    @property
    def on_return(self) -> OnReturn | None:
        return self._on_return

    @on_return.setter
    def on_return(self, on_return: OnReturn | None) -> None:
        self._on_return = on_return
        self._store.on_return = both_secrets(on_return)


class AsyncRotatingStore(Rotating):
    """A store whose `Names` know two secrets."""

    def __init__(self, store: AsyncSharedStore) -> None:
        super().__init__()
        self._store: AsyncSharedStore = store

    async def start(self) -> None:
        await self._store.start()

    async def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        return nearest(ops, await self._store.take(doubled(ops)))

    def atomic(self, ops: Sequence[Op]) -> bool:
        return self._store.atomic(doubled(ops))

    async def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        old = await self._store.grant(before(op), tokens, for_us)
        return nearer(op.limit, await self._store.grant(op, tokens, for_us), old)

    async def charge(self, charge: Charge) -> Charged:
        old = await self._store.charge(charge_before(charge))
        return both_charged(charge.op.limit, await self._store.charge(charge), old)

    async def beat(self, gateway: str) -> tuple[int, int]:
        old = await self._store.beat(PREVIOUS + gateway)
        return most_of(await self._store.beat(gateway), old)

    async def leave(self, gateway: str) -> None:
        await self._store.leave(PREVIOUS + gateway)
        await self._store.leave(gateway)

    async def borrow(self, borrow: Borrow) -> Lent:
        old = await self._store.borrow(borrow_before(borrow))
        new = await self._store.borrow(no_more_than(old, borrow))
        return new._replace(seen=nearer(borrow.op.limit, new.seen, old.seen))

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


class RotatingStore(Rotating):
    """The same for code that blocks."""

    def __init__(self, store: SharedStore) -> None:
        super().__init__()
        self._store: SharedStore = store

    def start(self) -> None:
        self._store.start()

    def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        return nearest(ops, self._store.take(doubled(ops)))

    def atomic(self, ops: Sequence[Op]) -> bool:
        return self._store.atomic(doubled(ops))

    def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        old = self._store.grant(before(op), tokens, for_us)
        return nearer(op.limit, self._store.grant(op, tokens, for_us), old)

    def charge(self, charge: Charge) -> Charged:
        old = self._store.charge(charge_before(charge))
        return both_charged(charge.op.limit, self._store.charge(charge), old)

    def beat(self, gateway: str) -> tuple[int, int]:
        old = self._store.beat(PREVIOUS + gateway)
        return most_of(self._store.beat(gateway), old)

    def leave(self, gateway: str) -> None:
        self._store.leave(PREVIOUS + gateway)
        self._store.leave(gateway)

    def borrow(self, borrow: Borrow) -> Lent:
        old = self._store.borrow(borrow_before(borrow))
        new = self._store.borrow(no_more_than(old, borrow))
        return new._replace(seen=nearer(borrow.op.limit, new.seen, old.seen))

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
