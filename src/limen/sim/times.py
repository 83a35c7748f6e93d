"""When a line was written: microseconds since 1970, from what logs write.

A text is looked at once: the lines of one second share it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["Times"]

US = 1_000_000
MOST_REMEMBERED = 100_000
MONTHS = dict(Jan=1, Feb=2, Mar=3, Apr=4, May=5, Jun=6, Jul=7, Aug=8, Sep=9, Oct=10, Nov=11, Dec=12)  # noqa: C408
COMMON = re.compile(
    r"(\d{1,2})/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d)(\.\d{1,9})? ([+-])(\d\d):?(\d\d)", re.ASCII
)
NUMBER = re.compile(r"\d{1,20}(?:\.\d{1,9})?", re.ASCII)
LONGER_THAN_S = (("ns", 10**16, 1000), ("us", 10**13, 1), ("ms", 10**10, -1000))
"""A number as large as that counts in nano-, micro- or milliseconds: in seconds it would be after the year 2286."""


TWO_DIGITS = {f"{number:02}": number for number in range(60)}
SECONDS = {text: number * US for text, number in TWO_DIGITS.items()}
MINUTES = {text: number * 60 * US for text, number in TWO_DIGITS.items()}
HOURS = {f"{number:02}": number * 3600 * US for number in range(24)}


class Times:
    """Reads times, and remembers those that it has read; of the Common Log Format the days."""

    def __init__(self) -> None:
        self._known: dict[str, int | None] = {}

    def us(self, text: str) -> int | None:
        """Microseconds since 1970, or None when it is no time.

        Args:
            text: `17/May/2015:10:05:03 +0000`, ISO 8601 (UTC when it names no zone), or a number since 1970 in
                seconds, milliseconds, microseconds or nanoseconds.
        """
        known = self._known
        found = known.get(text, -1)
        if found != -1:
            return found
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        found = known[text] = self._common(text) or _read(text)
        return found

    def _common(self, text: str) -> int | None:
        """A time as most are written, from its day and three numbers; None when it is not quite like that."""
        if len(text) != 26 or not text[11] == text[14] == text[17] == ":":
            return None
        day = f"{text[:11]}:00:00:00{text[20:]}"
        midnight_us = self._known.get(day, -1)
        if midnight_us == -1:
            midnight_us = self._known[day] = _read(day)
        try:
            time_us = HOURS[text[12:14]] + MINUTES[text[15:17]] + SECONDS[text[18:20]]
        except KeyError:
            return None
        return None if midnight_us is None else midnight_us + time_us


def _read(text: str) -> int | None:
    written = text.strip("[] ")
    if len(written) > 50:
        return None
    common = COMMON.fullmatch(written)
    try:
        if common:
            return _common_us(common)
        if NUMBER.fullmatch(written):
            return _number_us(written)
        moment = datetime.fromisoformat(written)
    except ValueError:
        return None
    return _moment_us(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _common_us(found: re.Match[str]) -> int:
    """The Common Log Format."""
    day, month, year, hour, minute, second, part, sign, hours, minutes = found.groups()
    moment = datetime(int(year), MONTHS.get(month, 0), int(day), int(hour), int(minute), min(int(second), 59), 0, UTC)
    west_s = (int(hours) * 3600 + int(minutes) * 60) * (1 if sign == "-" else -1)
    return _moment_us(moment) + west_s * US + round(float(part or 0) * US)


def _number_us(text: str) -> int:
    whole = int(text.partition(".")[0])
    for _, least, part in LONGER_THAN_S:
        if whole >= least:
            return whole // part if part > 0 else whole * -part
    return round(float(text) * US)


def _moment_us(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * US + since.microseconds
