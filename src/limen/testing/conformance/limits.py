"""Limits of every algorithm, for promises that hold for all of them."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone, tzinfo
from fractions import Fraction
from random import Random

from limen.core.algorithm import AnyLimit
from limen.core.calendar_window import CALENDAR_UNITS, CalendarUnit, CalendarWindow
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow

__all__ = ["DAY_US", "MAKERS", "US", "once", "quick", "slow"]

US = 1_000_000
DAY_US = 86_400 * US
WINDOWS_US = (1000, 999_999, US, 60 * US, 7 * DAY_US)
RATES = (Fraction(10, 13), Fraction(1, 3), Fraction(7), Fraction(997), Fraction(0))
UNITS: tuple[CalendarUnit, ...] = ("minute", "hour", "day", "week", "month")
ZONES: tuple[tzinfo, ...] = (UTC, timezone(timedelta(hours=5, minutes=45)))
MOST = 12


def once(capacity: int) -> Limit:
    """A quota that never comes back: time does not matter to it."""
    return Limit(capacity, Fraction(0))


def slow(capacity: int) -> list[AnyLimit]:
    """One of each kind, for which the seconds that a test takes make no difference."""
    window_us = 10 * DAY_US
    return [
        Limit(capacity, Fraction(capacity * US, window_us)),
        FixedWindow(capacity, window_us),
        CalendarWindow.of(capacity, "year"),
        SlidingWindow(capacity, window_us),
        SlidingLog(capacity, window_us),
    ]


def quick(capacity: int) -> list[AnyLimit]:
    """One of each kind, that is full again within two minutes."""
    window_us = 10 * US
    return [
        Limit(capacity, Fraction(capacity * US, window_us)),
        FixedWindow(capacity, window_us),
        CalendarWindow.of(capacity, "minute"),
        SlidingWindow(capacity, window_us),
        SlidingLog(capacity, window_us),
    ]


def some_bucket(random: Random) -> AnyLimit:
    return Limit(random.randint(0, MOST), random.choice((*RATES, Fraction(random.randint(1, US)))))


def some_fixed_window(random: Random) -> AnyLimit:
    return FixedWindow(random.randint(0, MOST), random.choice(WINDOWS_US))


def some_calendar_window(random: Random) -> AnyLimit:
    unit = random.choice(UNITS)
    return CalendarWindow(random.randint(0, MOST), CALENDAR_UNITS[unit] * US, unit, random.choice(ZONES))


def some_sliding_window(random: Random) -> AnyLimit:
    return SlidingWindow(random.randint(0, MOST), random.choice(WINDOWS_US))


def some_sliding_log(random: Random) -> AnyLimit:
    return SlidingLog(random.randint(0, MOST), random.choice(WINDOWS_US))


MAKERS = (some_bucket, some_fixed_window, some_calendar_window, some_sliding_window, some_sliding_log)
"""How to make some limit of each algorithm."""
