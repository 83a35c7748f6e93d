"""Stores that settle wrongly: each has one mistake of the kind that is easily made."""

from __future__ import annotations

from limen.stores.base import Charge, Charged
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from tests.testing.mistakes import breaks


@breaks("what is charged is taken once for each name, and each time it is told how much that was")
class ChargesAgain(MemoryStore):
    """Takes no notice of the name."""

    asked = 0

    def charge(self, charge: Charge) -> Charged:
        self.asked += 1
        return super().charge(charge._replace(name=b"%016d" % self.asked))


@breaks("one name may charge several buckets")
class KnowsNamesAlone(MemoryStore):
    """Remembers under which names it charged, and forgets whom."""

    def __init__(self, now_us: object) -> None:
        super().__init__(now_us)  # type: ignore[arg-type]
        self.made: dict[bytes, str] = {}

    def charge(self, charge: Charge) -> Charged:
        op = charge.op
        whom = f"{op.identity} {op.rule}"
        if charge.name and self.made.setdefault(charge.name, whom) != whom:
            charge = charge._replace(op=op._replace(cost=0), name=b"")
        return super().charge(charge)


@breaks("a charge of more than is there takes what is there")
class ChargesAllOrNothing(MemoryStore):
    """Charges as it takes: everything or nothing."""

    def charge(self, charge: Charge) -> Charged:
        op = charge.op
        enough = op.limit.allows(self.take([op._replace(cost=0)])[0], op.cost)
        return super().charge(charge if enough else charge._replace(op=op._replace(cost=0), name=b""))


@breaks("a charge leaves no more than it says, and never more than was there")
class SetsTheLevel(MemoryStore):
    """Takes the bound for what is to be there."""

    def charge(self, charge: Charge) -> Charged:
        if charge.most:
            self.reset(charge.op.identity, charge.op.rule)
        return super().charge(charge)


@breaks("a charge tells what is there after it")
class TellsWhatWasThere(AsyncMemoryStore):
    """Answers as a take does, with what it saw before."""

    async def charge(self, charge: Charge) -> Charged:
        (before,) = await self.take([charge.op._replace(cost=0, spend=False)])
        return (await super().charge(charge))._replace(seen=before)
