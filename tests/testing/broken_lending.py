"""Stores that lend wrongly: each has one mistake of the kind that is easily made."""

from __future__ import annotations

from limen.stores.base import Borrow, Lent
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from tests.testing.mistakes import breaks


@breaks("what is lent has left the bucket")
class LendsWithoutTaking(MemoryStore):
    """Looks whether there is enough, and takes nothing."""

    def borrow(self, borrow: Borrow) -> Lent:
        before = dict(self._cells)
        lent = super().borrow(borrow)
        self._cells.clear()
        self._cells.update(before)
        return lent


@breaks("no more is on loan than may be, all gateways together")
class LendsToEach(MemoryStore):
    """Every gateway may have as much as all together."""

    def borrow(self, borrow: Borrow) -> Lent:
        op, claim = borrow
        own = Borrow(op._replace(rule=f"{op.rule} of {claim.holder!r}"), claim)
        lent = super().borrow(own)
        return lent._replace(seen=self.take([op._replace(cost=lent.tokens)])[0] - lent.tokens * op.limit.raised(0, 1))


@breaks("what a gateway has spent of its lease makes room, and what it keeps does not")
class CountsEachLease(MemoryStore):
    """Counts every lease until its end, spent or not."""

    def borrow(self, borrow: Borrow) -> Lent:
        op, claim = borrow
        return super().borrow(Borrow(op, claim._replace(holder=b"%08d" % claim.number)))


@breaks("what is given back is there again, once, and no more than was lent")
class BelievesWhoGivesBack(MemoryStore):
    """Takes back whatever it is given."""

    def borrow(self, borrow: Borrow) -> Lent:
        op, claim = borrow
        if claim.back:
            self.grant(op, claim.back, 3_600_000_000)
        return super().borrow(Borrow(op, claim._replace(back=0)))


@breaks("a question about a lease that arrives after a newer one changes nothing")
class IgnoresTheOrder(MemoryStore):
    """Whoever asks last is right."""

    asked = 10**9

    def borrow(self, borrow: Borrow) -> Lent:
        self.asked += 1
        return super().borrow(borrow._replace(claim=borrow.claim._replace(number=self.asked)))


@breaks("at most half of what is there is lent")
class LendsAll(MemoryStore):
    """Lends the last token."""

    def borrow(self, borrow: Borrow) -> Lent:
        self.grant(borrow.op, 1, 3_600_000_000)
        lent = super().borrow(borrow)
        op = borrow.op._replace(cost=min(borrow.op.cost - lent.tokens, 3))
        taken = op.limit.allows(self.take([op])[0], op.cost)
        return lent._replace(tokens=lent.tokens + taken * op.cost)


@breaks("a lease is on loan until its end, and then it is neither kept nor given back")
class LendsForHalfTheTime(AsyncMemoryStore):
    """Forgets a lease before its gateway does."""

    async def borrow(self, borrow: Borrow) -> Lent:
        claim = borrow.claim
        return await super().borrow(borrow._replace(claim=claim._replace(ttl_us=claim.ttl_us // 2)))
