"""Stores that count wrongly: each has one mistake of the kind that is easily made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from limen.core.algorithm import Seen
from limen.stores.base import Op
from limen.stores.memory import MemoryStore
from tests.testing.mistakes import breaks


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


@breaks("operations with one label are decided in one step")
class NeverAtomic(MemoryStore):
    def atomic(self, ops: Sequence[Op]) -> bool:
        return False


@breaks("sliding_window counts by the arithmetic")
class Drifts(MemoryStore):
    """Reads its clock in milliseconds."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        super().__init__(lambda: now_us() // 1000 * 1000)
