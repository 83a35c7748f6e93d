"""What a limit lets through in an interval of any length: a burst, and a rate."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from limen.core.algorithm import AnyLimit
from limen.core.calendar_window import CalendarWindow
from limen.core.concurrency import SlotLimit
from limen.core.fixed_window import FixedWindow
from limen.core.limit import US_PER_SEC, Limit
from limen.core.windowed import Windowed
from limen.errors import UsageError
from limen.rules.limit_text import limit_from_text
from limen.rules.model import Rule

__all__ = ["Envelope", "envelope_of"]

SHORTEST = Fraction(9, 10)
"""Of the usual length of a calendar's unit: a month may have 28 days, a day 23 hours."""


class Envelope(NamedTuple):
    """At most `burst + per_us · T` tokens in any T microseconds."""

    burst: int
    per_us: Fraction

    def allowed(self, us: int) -> Fraction:
        return self.burst + self.per_us * us


def envelope_of(limit: str | Rule | AnyLimit) -> Envelope:
    """The least envelope that holds for every interval under a limit.

    Raises:
        UsageError: a limit that is none in time.
    """
    if isinstance(limit, Rule):
        return _of_numbers(limit.limit)
    return _of_numbers(limit_from_text(limit) if isinstance(limit, str) else limit)


def _of_numbers(limit: AnyLimit | SlotLimit | None) -> Envelope:
    if isinstance(limit, Limit):
        return Envelope(limit.capacity, limit.refill_per_sec / US_PER_SEC)
    if isinstance(limit, FixedWindow):
        return _of_fixed_window(limit)
    if isinstance(limit, Windowed):
        return Envelope(limit.capacity, Fraction(limit.capacity, limit.window_us))
    raise UsageError(f"{limit!r} says nothing about how much may pass in an interval of time")


def _of_fixed_window(limit: FixedWindow) -> Envelope:
    """Twice the capacity can pass around the end of a window."""
    shortest_us = limit.window_us * (SHORTEST if isinstance(limit, CalendarWindow) else 1)
    return Envelope(2 * limit.capacity, Fraction(limit.capacity) / shortest_us)
