"""Which buckets in this process were converted to a new limit (`core.carry`). Not safe for threads: its store is."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from limen.core.algorithm import AnyLimit
from limen.core.carry import AS_IS, Carry, carried_level, carried_state
from limen.core.limit import Limit
from limen.core.token_bucket import level_of, settle
from limen.stores.base import Op
from limen.stores.memory_cells import Cell, Cells, Key

__all__ = ["MemoryStamps", "Stamp"]

LOOKED_AT_PER_STAMP = 2


class Stamp(NamedTuple):
    """What a bucket was converted to."""

    generation: int
    until_us: int
    """By the time of day; from then on it says nothing."""
    limit: AnyLimit


class MemoryStamps:
    """Stamps of buckets that are there. Those that say nothing any more go bit by bit.

    Args:
        cells: the buckets.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._stamps: OrderedDict[Key, Stamp] = OrderedDict()

    def __len__(self) -> int:
        return len(self._stamps)

    def look(self, op: Op, key: Key, now_us: int, epoch_us: int) -> Stamp | None:
        """The stamp of a bucket, once it is converted if it has to be; its limit is the one that counts. One that is
        not there yet gets this stamp when it is made."""
        cell, carry = self._cells.get(key), op.carry
        stamp = None if cell is None else self._stamps.get(key)
        if stamp is not None and stamp.until_us <= epoch_us:
            stamp = None
        if carry is None or carry.until_us <= epoch_us:
            return stamp
        if stamp is not None and stamp.generation > carry.generation:
            return stamp
        fresh = Stamp(carry.generation, carry.until_us, op.limit)
        if cell is not None:
            if stamp is None or stamp.generation < carry.generation:
                convert(cell, carry.before if stamp is None else stamp.limit, op.limit, carry, now_us)
            self.put(key, fresh, epoch_us)
        return fresh

    def put(self, key: Key, stamp: Stamp, epoch_us: int) -> None:
        """Note that a bucket counts by the limit of a stamp."""
        if key not in self._stamps:
            for _ in range(min(LOOKED_AT_PER_STAMP, len(self._stamps))):
                oldest, known = self._stamps.popitem(last=False)
                if known.until_us > epoch_us and oldest in self._cells:
                    self._stamps[oldest] = known
        self._stamps[key] = stamp

    def clear(self) -> None:
        self._stamps.clear()


def convert(cell: Cell, before: AnyLimit | None, after: AnyLimit, carry: Carry, now_us: int) -> None:
    """Change a bucket in place."""
    if carry.how == AS_IS or before is None or before.algorithm != after.algorithm:
        return
    if isinstance(after, Limit) and isinstance(before, Limit):
        level = level_of(settle(cell.state, cell.limit, cell.at_us), before, now_us)
        cell.state = carried_level(level, before, after, carry.how)
    else:
        cell.state = carried_state(cell.state, before, after, carry.how, now_us)
    cell.at_us, cell.limit = now_us, after
