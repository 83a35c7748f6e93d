"""Limits that are not a number per time: windows of a calendar, and how many at a time."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from typing import cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from limen.core.calendar_window import CalendarUnit, CalendarWindow
from limen.core.concurrency import SlotLimit
from limen.errors import UsageError

__all__ = ["calendar_from_text", "is_concurrent", "slots_from_text", "whole_number"]

CALENDAR = re.compile(
    r"""\s* (?P<amount>\d[\d_,]{0,20}) \s* (?:/|per\b) \s* (?P<calendar>calendar \s+)?
        (?P<unit>minute|hour|day|week|month|year) (?: \s+ (?!burst\b) (?P<zone>[A-Za-z][A-Za-z0-9_+/-]*) )? \s*""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
CONCURRENT = re.compile(
    r"\s* (?P<amount>\d[\d_,]{0,20}) \s+ concurrent (?: \s+ for \s+ (?P<lease>\d{1,6}) \s* s )? \s*",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
WITHOUT_LENGTH = ("month", "year")


def calendar_from_text(text: str, algorithm: str | None) -> CalendarWindow | None:
    """The calendar window that a text stands for, if it stands for one.

    It does when it says `calendar`, names a zone, or counts by months or years. Without a zone it is UTC.

    Raises:
        UsageError: an unknown zone, or another algorithm than fixed_window.
    """
    found = CALENDAR.fullmatch(text)
    if not found:
        return None
    unit = found["unit"].lower()
    said = bool(found["calendar"] or found["zone"])
    if not said and (unit not in WITHOUT_LENGTH or algorithm not in (None, "fixed_window")):
        return None
    if algorithm not in (None, "fixed_window"):
        raise UsageError(f"{text!r} is a window of a calendar, which is a fixed_window and not a {algorithm}")
    return CalendarWindow.of(whole_number(found["amount"]), cast("CalendarUnit", unit), _zone(found["zone"]))


def is_concurrent(text: str) -> bool:
    """Whether a text says how many at a time."""
    return CONCURRENT.fullmatch(text) is not None


def slots_from_text(text: str, algorithm: str | None) -> SlotLimit:
    """The concurrency limit that a text stands for: `10 concurrent`, `10 concurrent for 60s`.

    Raises:
        UsageError: another spelling, or another algorithm.
    """
    found = CONCURRENT.fullmatch(text)
    if not found:
        raise UsageError(f"{text!r} does not say how many at a time; write '10 concurrent' or '10 concurrent for 60s'")
    if algorithm not in (None, "concurrency"):
        raise UsageError(f"{text!r} is a concurrency limit and not a {algorithm}")
    lease = {"lease_us": int(found["lease"]) * 1_000_000} if found["lease"] else {}
    return SlotLimit(whole_number(found["amount"]), **lease)


def whole_number(digits: str) -> int:
    """Digits, with or without separators of thousands."""
    return int(digits.replace(",", "").replace("_", ""))


def _zone(name: str | None) -> tzinfo:
    if name is None or name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"there is no time zone {name!r}; write it like Europe/Berlin (pip install tzdata if the system has none)"
        ) from error
