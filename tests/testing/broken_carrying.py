"""Stores that get candidates, or a new limit, wrong."""

from __future__ import annotations

from collections.abc import Sequence

from limen.core.algorithm import Seen
from limen.stores.base import Op
from limen.stores.memory import MemoryStore
from tests.testing.mistakes import breaks


@breaks("a candidate is taken as if it stood in the place of the limit that it is beside")
class StopsCandidates(MemoryStore):
    """Takes a candidate for one more shadow rule."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return super().take([op._replace(beside="") for op in ops])


@breaks("a candidate is taken as if it stood in the place of the limit that it is beside")
class NothingStopsCandidates(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        candidates = [op._replace(beside="") for op in ops if op.beside]
        seen = super().take([op._replace(spend=op.spend and not op.beside) for op in ops])
        if candidates:
            super().take(candidates)
        return seen


@breaks("a bucket becomes one of a new limit once, as it is said how")
class LeavesItAsItIs(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        return super().take([op._replace(carry=None) for op in ops])


@breaks("a bucket becomes one of a new limit once, as it is said how")
class ConvertsEachTime(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        self._stamps.clear()
        return super().take(ops)


@breaks("who has not heard of a new limit yet neither converts a bucket back nor takes away what it holds")
class ForgetsByWhatItCounts(MemoryStore):
    def take(self, ops: Sequence[Op]) -> list[Seen]:
        if all(op.carry is None for op in ops):
            self._stamps.clear()
        return super().take(ops)


@breaks("of two changes the newer one counts, whoever asks last")
class TheLastOneCounts(MemoryStore):
    generation = 10

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        self.generation += 1
        newest = [op._replace(carry=op.carry and op.carry._replace(generation=self.generation)) for op in ops]
        return super().take(newest)
