"""Buckets in this process: exact, thread-safe, bounded.

The map never grows beyond `max_buckets`. A bucket that has filled up again says nothing that a missing one would not
say, so it is dropped; when there is no such bucket to drop, the one nearest to full goes, so that filling the map
with new keys frees nobody who is being held back. There is no timer and no thread: in a map that is no longer small,
each new bucket pays for looking at a few of the oldest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import inf
from threading import Lock

from limen.core.limit import Limit
from limen.core.token_bucket import NEVER_REFILLS_TTL_MS, level_of, settle
from limen.errors import UsageError
from limen.stores.base import Op

__all__ = ["DEFAULT_MAX_BUCKETS", "AsyncMemoryStore", "MemoryStore"]

DEFAULT_MAX_BUCKETS = 1_000_000
TIDY_FROM = 4_096
"""Smaller maps are left alone: most buckets are full again at their next request, and would be made anew each time."""
LOOKED_AT_PER_NEW_BUCKET = 2
LOOKED_AT_WHEN_FULL = 16

Key = tuple[str, str]
"""Identity and rule."""


class Cell:
    """A bucket as it was last touched: `level` ticks of `limit` at `at_us`. Changed in place, under the lock."""

    __slots__ = ("at_us", "level", "limit")

    def __init__(self, level: int, at_us: int, limit: Limit) -> None:
        self.level = level
        self.at_us = at_us
        self.limit = limit


class MemoryStore:
    """Buckets in a dictionary.

    Args:
        now_us: the clock, in microseconds; read once for each `take`, under the lock.
        max_buckets: the most that are remembered.

    Raises:
        UsageError: there would be room for none.
    """

    def __init__(self, now_us: Callable[[], int], max_buckets: int = DEFAULT_MAX_BUCKETS) -> None:
        if max_buckets < 1:
            raise UsageError(f"max_buckets must be at least 1, not {max_buckets}")
        self._now_us = now_us
        self._max_buckets = max_buckets
        self._cells: OrderedDict[Key, Cell] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._cells)

    def take(self, ops: Sequence[Op]) -> list[int]:
        with self._lock:
            now_us = self._now_us()
            levels = [self._level((op.identity, op.rule), op.limit, now_us) for op in ops]
            left = [level - op.cost * op.limit.token_ticks for level, op in zip(levels, ops, strict=True)]
            if all(rest >= 0 for rest, op in zip(left, ops, strict=True) if op.enforce):
                for op, rest in zip(ops, left, strict=True):
                    if op.cost and rest >= 0:
                        self._put((op.identity, op.rule), rest, now_us, op.limit)
            return levels

    def take_one(self, key: Key, limit: Limit, cost: int) -> int:
        """`take` for a single enforced operation, at a third of the price; `cost` in ticks."""
        lock, clock = self._lock, self._now_us
        lock.acquire()  # a `with` statement costs twice as much, and a quarter of all this
        try:
            now_us = clock()
            cell = self._cells.get(key)
            if cell is None or cell.limit is not limit or now_us < cell.at_us:
                return self._take_with_care(key, limit, cost, now_us)
            level = cell.level + (now_us - cell.at_us) * limit.ticks_per_us
            if level > limit.full_ticks:
                level = limit.full_ticks
            if level >= cost > 0:
                cell.level = level - cost
                cell.at_us = now_us
            return level
        finally:
            lock.release()

    def _take_with_care(self, key: Key, limit: Limit, cost: int, now_us: int) -> int:
        """`take_one` for a new bucket, another limit, and a clock that stepped back."""
        level = self._level(key, limit, now_us)
        if level >= cost > 0:
            self._put(key, level - cost, now_us, limit)
        return level

    def begin_anew(self, key: Key, limit: Limit, since_us: int) -> None:
        """Forget a bucket that was last spent from before `since_us` and by then held what a new one begins with."""
        cell = self._cells.get(key)
        if cell is not None and cell.at_us < since_us and self._level(key, limit, since_us) >= limit.start_ticks:
            self._cells.pop(key, None)

    def reset(self, identity: str, rule: str | None) -> None:
        with self._lock:
            if rule is not None:
                self._cells.pop((identity, rule), None)
                return
            for key in [key for key in self._cells if key[0] == identity]:
                del self._cells[key]

    def clear(self) -> None:
        """Forget everything."""
        self._cells.clear()

    def sweep(self) -> None:
        """Drop every bucket that has filled up. New buckets do it bit by bit; this does it now."""
        with self._lock:
            now_us = self._now_us()
            for key in [key for key, cell in self._cells.items() if _says_nothing(cell, now_us)]:
                del self._cells[key]

    def close(self) -> None:
        self.clear()

    def _level(self, key: Key, limit: Limit, now_us: int) -> int:
        """What a bucket holds. A clock that stepped back, or another limit, becomes the new state at once."""
        cell = self._cells.get(key)
        if cell is None:
            if limit.start_ticks < limit.full_ticks:  # it begins to fill now, also when this request is refused
                self._put(key, limit.start_ticks, now_us, limit)
            return limit.start_ticks
        bucket = settle(cell.level, cell.limit, cell.at_us)
        level = level_of(bucket, limit, now_us)
        if now_us < bucket.anchor_us:
            cell.level, cell.at_us, cell.limit = level, now_us, limit
        return level

    def _put(self, key: Key, level: int, now_us: int, limit: Limit) -> None:
        cell = self._cells.get(key)
        if cell is None:
            self._make_room(now_us)
            self._cells[key] = Cell(level, now_us, limit)
        else:
            cell.level, cell.at_us, cell.limit = level, now_us, limit

    def _make_room(self, now_us: int) -> None:
        if len(self._cells) < min(TIDY_FROM, self._max_buckets):
            return
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
        op = ops[0]
        if len(ops) == 1 and op.enforce:
            return (self.local.take_one((op.identity, op.rule), op.limit, op.cost * op.limit.token_ticks),)
        return self.local.take(ops)

    async def reset(self, identity: str, rule: str | None) -> None:
        self.local.reset(identity, rule)

    async def close(self) -> None:
        self.local.close()
