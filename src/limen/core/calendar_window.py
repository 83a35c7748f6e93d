"""Fixed windows that begin with the minutes, days or months of a calendar: 100 000 a month, new on the first.

The calendar is that of a time zone, with its summer time: a day in Berlin has 23 hours once a year. Windows are told
apart by their ends, as in `fixed_window`, so what is stored means the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import ClassVar, Literal, NamedTuple

from limen.core.fixed_window import FixedWindow

__all__ = ["CALENDAR_UNITS", "Bounds", "CalendarUnit", "CalendarWindow"]

CalendarUnit = Literal["minute", "hour", "day", "week", "month", "year"]

US = 1_000_000
DAY_S = 86_400
CALENDAR_UNITS: dict[CalendarUnit, int] = {
    "minute": 60, "hour": 3600, "day": DAY_S, "week": 7 * DAY_S, "month": 30 * DAY_S, "year": 365 * DAY_S,
}  # fmt: skip
"""The usual length of each in seconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_US = 250_000_000_000 * US
"""In the year 9892: what a broken clock says beyond it is taken for this."""


class Bounds(NamedTuple):
    """Microseconds since 1970: the window around a moment and the end of the one after it."""

    start_us: int
    end_us: int
    next_end_us: int


@dataclass(frozen=True, slots=True)
class CalendarWindow(FixedWindow):
    """At most `capacity` tokens in each unit of the calendar of `zone`. Weeks begin on Monday.

    Args:
        capacity: whole tokens.
        window_us: about how long a window is (for clients, and for shares while the store is away).
        unit: minute, hour, day, week, month or year.
        zone: whose calendar.

    Its clock counts from 1970.
    """

    unit: CalendarUnit = "month"
    zone: tzinfo = UTC
    _latest: list[Bounds] = field(default_factory=list, init=False, compare=False, repr=False)
    """The bounds that were asked for last, if any: they are good for a whole window."""
    algorithm: ClassVar[str] = "calendar_window"

    @classmethod
    def of(cls, capacity: int, unit: CalendarUnit, zone: tzinfo = UTC) -> CalendarWindow:
        """So many tokens in each unit of a calendar."""
        return cls(capacity, CALENDAR_UNITS[unit] * US, unit, zone)

    def end_of_window(self, now_us: int) -> int:
        return self.bounds(now_us).end_us

    def bounds(self, now_us: int) -> Bounds:
        """The window around a moment."""
        latest = self._latest
        if latest and latest[0].start_us <= now_us < latest[0].end_us:
            return latest[0]
        start_us = self._start(now_us)
        end_us = self._end(start_us)
        bounds = Bounds(start_us, end_us, self._end(end_us))
        latest[:] = [bounds]
        return bounds

    def _start(self, now_us: int) -> int:
        local = (EPOCH + timedelta(microseconds=max(0, min(now_us, LAST_US)))).astimezone(self.zone)
        if self.unit in ("minute", "hour"):
            return _floor(now_us, local, CALENDAR_UNITS[self.unit] * US)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if self.unit == "week":
            midnight -= timedelta(days=midnight.weekday())
        elif self.unit != "day":
            midnight = midnight.replace(day=1, month=1 if self.unit == "year" else midnight.month)
        return _us(midnight)

    def _end(self, start_us: int) -> int:
        """When the window that starts then ends: the start of whatever holds a moment well inside the next."""
        length_us = CALENDAR_UNITS[self.unit] * US
        if self.unit in ("minute", "hour"):
            return start_us + length_us
        return self._start(start_us + length_us * 4 // 3)


def _floor(now_us: int, local: datetime, length_us: int) -> int:
    """The start of a minute or hour by the clock on the wall, which some zones shift by half an hour."""
    offset = local.utcoffset() or timedelta()
    offset_us = offset // timedelta(microseconds=1)
    return (now_us + offset_us) // length_us * length_us - offset_us


def _us(moment: datetime) -> int:
    return (moment.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
