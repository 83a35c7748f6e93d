"""The spellings of a limit: what an operator writes, as the numbers of `core.limit`."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from limen.core.limit import MAX_CAPACITY, MAX_REFILL_PER_SEC, Limit, exact_rate
from limen.errors import UsageError

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


def limit_from_text(text: str) -> Limit | None:
    """The limit that a text stands for; None for `unlimited`.

    `N/unit` is a bucket of N tokens that refills N per unit; `burst B` makes the bucket B tokens large. A limit of
    0 refuses everything.

    Raises:
        UsageError: the text says what to write instead.
    """
    if text.strip().lower() == UNLIMITED:
        return None
    found = SPELLING.fullmatch(text)
    if not found:
        raise UsageError(f"{text!r} is not a limit; {EXAMPLES}")
    amount, period = _whole(found["amount"]), int(found["count"] or 1) * _seconds(found["unit"], text)
    burst = _whole(found["burst"]) if found["burst"] else amount
    if not period:
        raise UsageError(f"{text!r}: the period is 0; {EXAMPLES}")
    if amount and not burst:
        raise UsageError(f"{text!r}: a bucket without room never allows; leave the burst out or write 1 or more")
    if not amount and burst:
        raise UsageError(f"{text!r} never refills and would lock clients out for good; write '0/minute' to refuse all")
    return Limit(check_capacity(burst), check_refill(amount / period))


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


def _whole(digits: str) -> int:
    return int(digits.replace(",", "").replace("_", ""))


def _seconds(unit: str, text: str) -> Fraction:
    singular = unit.lower().removesuffix("s") if len(unit) > 2 else unit.lower()
    if singular in SECONDS:
        return SECONDS[singular]
    if singular in ("month", "year"):
        raise UsageError(f"{text!r}: a {singular} has no fixed length; write it in days, such as '1000/30 days'")
    raise UsageError(f"{text!r}: {unit!r} is not a unit; use second, minute, hour, day or week")
