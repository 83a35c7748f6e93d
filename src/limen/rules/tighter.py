"""Whether whatever one limit lets through is within another, so that the other never refuses anything by itself.

Both count the same requests, or the first counts more, for as many clients together or more, at no smaller cost. So
what the second has counted in any interval is at most what the first has let through in it:

    token bucket             at most  C + r·T               in an interval of T
    sliding log              at most  N·(1 + ⌊T/w⌋)         so many windows lie end to end in it
    other windows            at most  N·(2 + ⌊T/w⌋)         and windows that begin anywhere may be cut at both ends

and the second never refuses when that is at most what it allows in any interval. Where this is not certain the answer
is no.
"""

from __future__ import annotations

from fractions import Fraction

from limen.core.algorithm import AnyLimit
from limen.core.calendar_window import CALENDAR_UNITS, CalendarWindow
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.core.windowed import Windowed

__all__ = ["is_within"]

US = 1_000_000
ODD_DAY_US = 86_400 * US
"""Months are shorter and longer than usual by a day or two, and zones have skipped and repeated whole days."""
DAYS = ("day", "week", "month", "year")


def is_within(tight: AnyLimit, loose: AnyLimit, alike: bool) -> bool:
    """Whether `loose` never refuses what `tight` lets through.

    Args:
        alike: both count exactly the same requests, by the same key, at the same cost.
    """
    if not tight.capacity:
        return True
    if not isinstance(tight, Limit | Windowed):
        return False
    if _aligned(tight, loose, alike):
        return tight.capacity <= loose.capacity
    if isinstance(loose, Limit):
        return _within_bucket(tight, loose)
    if isinstance(loose, SlidingWindow):  # two windows of the second make its estimate
        return _most(tight, 2 * loose.window_us - 1) <= loose.capacity
    return isinstance(loose, Windowed) and _most(tight, _longest_us(loose) - 1) <= loose.capacity


def _aligned(tight: Limit | Windowed, loose: AnyLimit, alike: bool) -> bool:
    """Whether their windows begin and end together."""
    if isinstance(tight, CalendarWindow) and isinstance(loose, CalendarWindow):
        return (tight.unit, tight.zone) == (loose.unit, loose.zone)
    if isinstance(tight, SlidingWindow) and isinstance(loose, SlidingWindow) and tight.unit_us != loose.unit_us:
        return False
    return (
        alike
        and type(tight) is type(loose)
        and isinstance(tight, Windowed)
        and isinstance(loose, Windowed)
        and tight.window_us == loose.window_us
    )


def _within_bucket(tight: Limit | Windowed, bucket: Limit) -> bool:
    grows = Fraction(bucket.ticks_per_us, bucket.token_ticks)
    if isinstance(tight, Limit):
        return tight.capacity <= bucket.capacity and tight.refill_per_sec <= grows * US
    at_once = tight.capacity * (1 if isinstance(tight, SlidingLog) else 2)
    return at_once <= bucket.capacity and Fraction(tight.capacity, _shortest_us(tight)) <= grows


def _most(limit: Limit | Windowed, us: int) -> Fraction:
    """The most that a limit lets through in an interval of so many microseconds, both ends included."""
    if isinstance(limit, Limit):
        return limit.capacity + limit.refill_per_sec * us / US
    cut = 1 if isinstance(limit, SlidingLog) else 2
    return Fraction(limit.capacity * (cut + us // _shortest_us(limit)))


def _longest_us(limit: Windowed) -> int:
    if isinstance(limit, CalendarWindow) and limit.unit in DAYS:
        return CALENDAR_UNITS[limit.unit] * US + 2 * ODD_DAY_US
    return limit.window_us


def _shortest_us(limit: Windowed) -> int:
    if isinstance(limit, CalendarWindow) and limit.unit in DAYS:
        usual = CALENDAR_UNITS[limit.unit] * US
        return usual * 5 // 6
    return limit.window_us
