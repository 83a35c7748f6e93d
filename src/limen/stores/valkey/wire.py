"""How limits go over the wire: a letter for the algorithm and four numbers, as `scripts/*.lua` read them."""

from __future__ import annotations

from collections.abc import Callable

from limen.core.algorithm import AnyLimit
from limen.core.calendar_window import CalendarWindow
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.errors import UsageError

__all__ = ["EPOCH_US", "WIDTHS", "numbers_of"]

EPOCH_US = 1_735_689_600_000_000
"""2025-01-01, from which the script counts."""

Numbers = tuple[int, int, int, int]

WIDTHS: dict[type, int] = {Limit: 1, FixedWindow: 2, CalendarWindow: 2, SlidingWindow: 4, SlidingLog: 3}
"""How many integers tell what was seen."""


def numbers_of(limit: AnyLimit, epoch_us: Callable[[], int]) -> tuple[bytes, Numbers]:
    """The letter and the numbers of a limit.

    Args:
        epoch_us: microseconds since 1970, for calendars.

    Raises:
        UsageError: an algorithm that this store does not know.
    """
    if type(limit) is Limit:
        return b"b", (limit.token_ticks, limit.ticks_per_us, limit.full_ticks, 0)
    if type(limit) is FixedWindow:
        return b"f", (limit.capacity, limit.window_us, 0, 0)
    if type(limit) is CalendarWindow:
        start_us, end_us, next_end_us = limit.bounds(epoch_us())
        return b"c", (limit.capacity, start_us - EPOCH_US, end_us - EPOCH_US, next_end_us - EPOCH_US)
    if type(limit) is SlidingWindow:
        return b"s", (limit.capacity, limit.window_us, limit.unit_us, limit.units)
    if type(limit) is SlidingLog:
        return b"l", (limit.capacity, limit.window_us, 0, 0)
    raise UsageError(f"this store does not know the algorithm {limit.algorithm!r}")
