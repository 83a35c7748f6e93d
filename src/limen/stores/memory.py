"""Buckets in this process: exact, thread-safe, bounded.

The map never grows beyond `max_buckets`. A bucket that has filled up again says nothing that a missing one would not
say, so it is dropped; when there is no such bucket to drop, the one nearest to full goes, so that filling the map
with new keys frees nobody who is being held back. There is no timer and no thread: each new bucket pays for looking
at a few of the oldest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import inf
from threading import Lock
from typing import NamedTuple

from limen.core.limit import Limit
from limen.core.token_bucket import NEVER_REFILLS_TTL_MS, level_of, settle
from limen.stores.base import Op

__all__ = ["DEFAULT_MAX_BUCKETS", "AsyncMemoryStore", "MemoryStore"]

DEFAULT_MAX_BUCKETS = 1_000_000
LOOKED_AT_PER_NEW_BUCKET = 2
LOOKED_AT_WHEN_FULL = 16

Key = tuple[str, str]
"""Identity and rule."""


class Cell(NamedTuple):
    """A bucket as it was last touched: `level` ticks of `limit` at `at_us`."""

    level: int
    at_us: int
    limit: Limit


_new = tuple.__new__


class MemoryStore:
    """Buckets in a dictionary.

    Args:
        now_us: the clock, in microseconds; read once for each `take`, under the lock.
        max_buckets: the most that are remembered.
    """

    def __init__(self, now_us: Callable[[], int], max_buckets: int = DEFAULT_MAX_BUCKETS) -> None:
        self._now_us = now_us
        self._max_buckets = max_buckets
        self._cells: OrderedDict[Key, Cell] = OrderedDict()
        lock = Lock()
        # Called directly: a `with` statement costs twice as much, and half of what the bucket costs.
        self._acquire = lock.acquire
        self._release = lock.release

    def __len__(self) -> int:
        return len(self._cells)

    def take(self, ops: Sequence[Op]) -> list[int]:
        self._acquire()
        try:
            now_us = self._now_us()
            levels = [self._level((op.identity, op.rule), op.limit, now_us) for op in ops]
            left = [level - op.cost * op.limit.token_ticks for level, op in zip(levels, ops, strict=True)]
            if all(rest >= 0 for rest, op in zip(left, ops, strict=True) if op.enforce):
                for op, rest in zip(ops, left, strict=True):
                    if op.cost and rest >= 0:
                        self._put((op.identity, op.rule), Cell(rest, now_us, op.limit))
            return levels
        finally:
            self._release()

    def take_one(self, key: Key, limit: Limit, cost: int) -> int:
        """`take` for a single enforced operation, at half the price; `cost` in ticks."""
        self._acquire()
        try:
            now_us = self._now_us()
            cell = self._cells.get(key)
            if cell is not None and cell[2] is limit and now_us >= cell[1]:
                level: int = cell[0] + (now_us - cell[1]) * limit.ticks_per_us
                if level > limit.full_ticks:
                    level = limit.full_ticks
                if level >= cost > 0:
                    self._cells[key] = _new(Cell, (level - cost, now_us, limit))
                return level
            level = self._level(key, limit, now_us)
            if level >= cost > 0:
                self._put(key, Cell(level - cost, now_us, limit))
            return level
        finally:
            self._release()

    def reset(self, identity: str, rule: str | None) -> None:
        self._acquire()
        try:
            if rule is not None:
                self._cells.pop((identity, rule), None)
                return
            for key in [key for key in self._cells if key[0] == identity]:
                del self._cells[key]
        finally:
            self._release()

    def clear(self) -> None:
        """Forget everything."""
        self._cells.clear()

    def sweep(self) -> None:
        """Drop every bucket that has filled up. New buckets do it bit by bit; this does it now."""
        self._acquire()
        try:
            now_us = self._now_us()
            for key in [key for key, cell in self._cells.items() if _says_nothing(cell, now_us)]:
                del self._cells[key]
        finally:
            self._release()

    def close(self) -> None:
        self.clear()

    def _level(self, key: Key, limit: Limit, now_us: int) -> int:
        """What a bucket holds. A clock that stepped back, or another limit, becomes the new state at once."""
        cell = self._cells.get(key)
        if cell is None:
            return limit.start_ticks
        bucket = settle(cell.level, cell.limit, cell.at_us)
        level = level_of(bucket, limit, now_us)
        if now_us < bucket.anchor_us:
            self._cells[key] = Cell(level, now_us, limit)
        return level

    def _put(self, key: Key, cell: Cell) -> None:
        if key not in self._cells:
            self._make_room(cell.at_us)
        self._cells[key] = cell

    def _make_room(self, now_us: int) -> None:
        for _ in range(min(LOOKED_AT_PER_NEW_BUCKET, len(self._cells))):
            key, cell = next(iter(self._cells.items()))
            if _says_nothing(cell, now_us):
                del self._cells[key]
            else:
                self._cells.move_to_end(key)
        if len(self._cells) >= self._max_buckets:
            self._evict(now_us)

    def _evict(self, now_us: int) -> None:
        """Drop, of some of the oldest, the one that holds its client back for the shortest time."""
        oldest = [self._cells.popitem(last=False) for _ in range(min(LOOKED_AT_WHEN_FULL, len(self._cells)))]
        freed = min(range(len(oldest)), key=lambda index: _held_back_us(oldest[index][1], now_us))
        for index, (key, cell) in enumerate(oldest):
            if index != freed:
                self._cells[key] = cell


def _says_nothing(cell: Cell, now_us: int) -> bool:
    if not cell.limit.refills:
        return now_us - cell.at_us > NEVER_REFILLS_TTL_MS * 1000
    return _held_back_us(cell, now_us) <= 0


def _held_back_us(cell: Cell, now_us: int) -> float:
    """Until the bucket is full."""
    limit = cell.limit
    if not limit.refills:
        return inf
    return (limit.full_ticks - cell.level) / limit.ticks_per_us - (now_us - cell.at_us)


class AsyncMemoryStore:
    """The same store behind the interface for coroutines."""

    state = "memory"

    def __init__(self, store: MemoryStore) -> None:
        self.local = store

    async def start(self) -> None:
        """There is nothing to connect to."""

    async def take(self, ops: Sequence[Op]) -> Sequence[int]:
        return self.local.take(ops)

    async def reset(self, identity: str, rule: str | None) -> None:
        self.local.reset(identity, rule)

    async def close(self) -> None:
        self.local.close()
