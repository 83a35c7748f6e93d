"""A bounded map of buckets that forgets those that say the least.

A bucket in which everything is there again says nothing that a missing one would not say, so it is dropped; when
there is no such bucket to drop, the one nearest to that goes, so that filling the map with new keys frees nobody who
is being held back. There is no timer and no thread: in a map that is no longer small, each new bucket pays for
looking at a few of the oldest.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf
from typing import Any

from limen.core.limit import Limit
from limen.core.token_bucket import NEVER_REFILLS_TTL_MS
from limen.errors import UsageError

__all__ = ["Cell", "Cells", "Key"]

TIDY_FROM = 4_096
"""Smaller maps are left alone: most buckets are full again at their next request, and would be made anew each time."""
LOOKED_AT_PER_NEW_BUCKET = 2
LOOKED_AT_WHEN_FULL = 16

Key = tuple[str, str]
"""Identity and bucket (`stores.base.bucket_name`)."""


class Cell:
    """A bucket as it was last touched, at `at_us` under `limit`. Changed in place, under the lock of its store.

    `state` is what the algorithm keeps; of a token bucket it is the level in ticks.
    """

    __slots__ = ("at_us", "limit", "state")

    def __init__(self, state: Any, at_us: int, limit: Any) -> None:
        self.state = state
        self.at_us = at_us
        self.limit = limit


class Cells(OrderedDict[Key, Cell]):
    """Buckets in the order in which they were made or last looked at for room.

    Args:
        most: the most that are remembered.
        tidy_from: how many there are before any is looked at.

    Raises:
        UsageError: there would be room for none.
    """

    def __init__(self, most: int, tidy_from: int = TIDY_FROM) -> None:
        super().__init__()
        if most < 1:
            raise UsageError(f"max_buckets must be at least 1, not {most}")
        self._most = most
        self._tidy_from = min(tidy_from, most)

    def put(self, key: Key, state: Any, now_us: int, limit: Any) -> None:
        """Keep a state, in its cell or in a new one."""
        cell = self.get(key)
        if cell is None:
            self.make_room(now_us)
            self[key] = Cell(state, now_us, limit)
        else:
            cell.state, cell.at_us, cell.limit = state, now_us, limit

    def sweep(self, now_us: int) -> None:
        """Drop every bucket that says nothing. New buckets do it bit by bit; this does it now."""
        for key in [key for key, cell in self.items() if _says_nothing(cell, now_us)]:
            del self[key]

    def tidy(self, now_us: int, count: int) -> None:
        """Look at some of the oldest, and drop those that say nothing."""
        for _ in range(min(count, len(self))):
            key, cell = next(iter(self.items()))
            if _says_nothing(cell, now_us):
                del self[key]
            else:
                self.move_to_end(key)

    def make_room(self, now_us: int) -> None:
        """Look at a few of the oldest, and make sure that one more fits."""
        if len(self) < self._tidy_from:
            return
        self.tidy(now_us, LOOKED_AT_PER_NEW_BUCKET)
        if len(self) >= self._most:
            self._evict(now_us)

    def _evict(self, now_us: int) -> None:
        """Drop, of some of the oldest, the one that holds its client back for the shortest time."""
        oldest = [self.popitem(last=False) for _ in range(min(LOOKED_AT_WHEN_FULL, len(self)))]
        freed = min(range(len(oldest)), key=lambda index: _held_back_us(oldest[index][1], now_us))
        for index, (key, cell) in enumerate(oldest):
            if index != freed:
                self[key] = cell


def _says_nothing(cell: Cell, now_us: int) -> bool:
    if _never_refills(cell):
        return now_us - cell.at_us > NEVER_REFILLS_TTL_MS * 1000
    return _held_back_us(cell, now_us) <= 0


def _never_refills(cell: Cell) -> bool:
    return type(cell.limit) is Limit and not cell.limit.refills


def _held_back_us(cell: Cell, now_us: int) -> float:
    """Until everything is there again, as it looked when the bucket was touched."""
    limit, since_us = cell.limit, now_us - cell.at_us
    if _never_refills(cell):
        return inf
    if type(limit) is Limit:
        level: int = cell.state
        return (limit.full_ticks - level) / limit.ticks_per_us - since_us
    reset_us: int = limit.reset_after_us(limit.look(cell.state, cell.at_us, 0))
    return reset_us - since_us
