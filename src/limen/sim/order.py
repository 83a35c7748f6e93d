"""Requests in the order in which they came, from logs that are not in order.

A server writes a line when a request ends, so lines change places; and several logs of one day overlap. A window of
requests is kept and sorted again and again; what falls out at its old end is in order. Of several logs that one is read
on which is furthest behind. A line that comes even later than the window reaches is counted, and decided when it comes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter

from limen.sim.record import Record

__all__ = ["Batches", "in_order", "merged"]

WINDOW = 100_000

at_us = itemgetter(0)


class Batches:
    """The requests of one log, block by block, and how far it has been read.

    Args:
        batches: what is read of it.
    """

    def __init__(self, batches: Iterable[list[Record]]) -> None:
        self._batches = iter(batches)
        self._next = next(self._batches, None)
        self.latest_us = self._next[0][0] if self._next else 0
        """No later than what comes next, if the log is in order."""

    @property
    def is_over(self) -> bool:
        return self._next is None

    def take(self) -> list[Record]:
        """The next requests."""
        taken = self._next or []
        self._next = next(self._batches, None)
        if taken:
            self.latest_us = max(self.latest_us, max(map(at_us, taken)))
        return taken


def merged(logs: Iterable[Batches]) -> Iterator[tuple[list[Record], int | None]]:
    """Requests of all logs, and up to when all of them have been read; None when they are read to their ends."""
    open_logs = [log for log in logs if not log.is_over]
    while open_logs:
        behind = min(open_logs, key=lambda log: log.latest_us)
        batch = behind.take()
        open_logs = [log for log in open_logs if not log.is_over]
        yield batch, min((log.latest_us for log in open_logs), default=None)


class in_order:
    """Iterates over lists of requests, each in order and after the one before, but for those that are too late.

    Args:
        batches: requests, and up to when everything has been read.
        window: how many are kept.

    Attributes:
        late: how many came too late.
        most_late_us: the farthest that one of them was behind.
    """

    def __init__(self, batches: Iterable[tuple[list[Record], int | None]], window: int = WINDOW) -> None:
        self.late = 0
        self.most_late_us = 0
        self._batches = batches
        self._window = window
        self._kept: list[Record] = []
        self._last_us = 0

    def __iter__(self) -> Iterator[list[Record]]:
        for batch, read_to_us in self._batches:
            self._kept += batch
            if len(self._kept) >= 2 * self._window:
                self._kept.sort(key=at_us)
                yield self._released(self._ready(read_to_us))
        self._kept.sort(key=at_us)
        yield self._released(len(self._kept))

    def _ready(self, read_to_us: int | None) -> int:
        """How many of those that are kept, and sorted, need not wait for others."""
        old = len(self._kept) - self._window
        return old if read_to_us is None else min(old, bisect_right(self._kept, read_to_us, key=at_us))

    def _released(self, count: int) -> list[Record]:
        released, self._kept = self._kept[:count], self._kept[count:]
        late = bisect_left(released, self._last_us, key=at_us)
        if late:
            self.late += late
            self.most_late_us = max(self.most_late_us, self._last_us - released[0][0])
        if released:
            self._last_us = max(self._last_us, released[-1][0])
        return released
