"""The spellings of a limit: what an operator writes, as the numbers of an algorithm."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil
from typing import Final

from limen.core.algorithm import AnyLimit
from limen.core.concurrency import SlotLimit
from limen.core.fixed_window import FixedWindow
from limen.core.limit import MAX_CAPACITY, MAX_REFILL_PER_SEC, Limit, exact_rate
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.errors import UsageError
from limen.rules.special_text import calendar_from_text, is_concurrent, slots_from_text, whole_number

__all__ = ["UNLIMITED", "check_capacity", "check_refill", "limit_from_text"]

UNLIMITED: Final = "unlimited"

SECONDS: Final = {
    "ms": Fraction(1, 1000), "millisecond": Fraction(1, 1000),
    "s": Fraction(1), "sec": Fraction(1), "second": Fraction(1),
    "m": Fraction(60), "min": Fraction(60), "minute": Fraction(60),
    "h": Fraction(3600), "hr": Fraction(3600), "hour": Fraction(3600),
    "d": Fraction(86_400), "day": Fraction(86_400),
    "w": Fraction(604_800), "week": Fraction(604_800),
}  # fmt: skip

SPELLING = re.compile(
    r"""\s* (?P<amount>\d[\d_,]{0,20}) \s* (?:/|per\b) \s* (?P<count>\d{1,9})? \s* (?P<unit>[a-z]+)
        (?: \s+ burst \s+ (?P<burst>\d[\d_,]{0,20}) )? \s*""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)

EXAMPLES = "write it as '100/minute', '20/second burst 100', '5 per 30s', or give capacity and refill_per_sec"


def limit_from_text(text: str, algorithm: str | None = None) -> AnyLimit | SlotLimit | None:
    """The limit that a text stands for; None for `unlimited`.

    `N/unit` is a token bucket of N tokens that refills N per unit; `burst B` makes it B tokens large. Under a window
    algorithm it is N tokens in a window of one unit. `N/month`, `N/calendar day Europe/Berlin` are windows of a
    calendar, `N concurrent` is a concurrency limit, both also when no algorithm is named. A limit of 0 refuses
    everything.

    Args:
        algorithm: as in a rule, or None for what the text says, by default a token bucket.

    Raises:
        UsageError: the text says what to write instead.
    """
    if text.strip().lower() == UNLIMITED:
        return None
    if algorithm == "concurrency" or is_concurrent(text):
        return slots_from_text(text, algorithm)
    calendar = calendar_from_text(text, algorithm)
    if calendar is not None:
        return calendar
    found = SPELLING.fullmatch(text)
    if not found:
        raise UsageError(f"{text!r} is not a limit; {EXAMPLES}")
    amount, period = whole_number(found["amount"]), int(found["count"] or 1) * _seconds(found["unit"], text)
    if not period:
        raise UsageError(f"{text!r}: the period is 0; {EXAMPLES}")
    if algorithm in WINDOWS:
        return _window(algorithm, amount, period, found["burst"], text)
    burst = whole_number(found["burst"]) if found["burst"] else amount
    if amount and not burst:
        raise UsageError(f"{text!r}: a bucket without room never allows; leave the burst out or write 1 or more")
    if not amount and burst:
        raise UsageError(f"{text!r} never refills and would lock clients out for good; write '0/minute' to refuse all")
    return Limit(check_capacity(burst), check_refill(amount / period))


WINDOWS: Final[Mapping[str | None, Callable[[int, int], AnyLimit]]] = {
    "fixed_window": FixedWindow, "sliding_window": SlidingWindow, "sliding_log": SlidingLog,
}  # fmt: skip


def _window(algorithm: str | None, amount: int, period: Fraction, burst: str | None, text: str) -> AnyLimit:
    if burst:
        raise UsageError(f"{text!r}: only a token_bucket has a burst; leave it out")
    return WINDOWS[algorithm](check_capacity(amount), ceil(period * 1_000_000))


def check_capacity(capacity: object) -> int:
    """`capacity` as whole tokens.

    Raises:
        UsageError: not a whole number, or out of range.
    """
    if isinstance(capacity, bool) or not isinstance(capacity, int):
        raise UsageError(f"capacity must be a whole number of tokens, not {capacity!r}")
    if not 0 <= capacity <= MAX_CAPACITY:
        raise UsageError(f"capacity must be between 0 and {MAX_CAPACITY:,}, not {capacity}")
    return capacity


def check_refill(refill_per_sec: object) -> Fraction:
    """`refill_per_sec` as the simple fraction that was meant. A refill of 0 is a quota that is spent once.

    Raises:
        UsageError: not a number, not finite, or out of range.
    """
    if isinstance(refill_per_sec, bool) or not isinstance(refill_per_sec, int | float | Fraction):
        raise UsageError(f"refill_per_sec must be a number of tokens per second, not {refill_per_sec!r}")
    if not 0 <= refill_per_sec <= MAX_REFILL_PER_SEC:
        raise UsageError(f"refill_per_sec must be between 0 and {MAX_REFILL_PER_SEC:,}, not {refill_per_sec}")
    return refill_per_sec if isinstance(refill_per_sec, Fraction) else exact_rate(refill_per_sec)


def _seconds(unit: str, text: str) -> Fraction:
    singular = unit.lower().removesuffix("s") if len(unit) > 2 else unit.lower()
    if singular in SECONDS:
        return SECONDS[singular]
    if singular in ("month", "year"):
        days = f"'1000/{30 if singular == 'month' else 365} days'"
        raise UsageError(f"{text!r}: a {singular} has no fixed length; use algorithm: fixed_window, or write {days}")
    raise UsageError(f"{text!r}: {unit!r} is not a unit; use second, minute, hour, day or week")
