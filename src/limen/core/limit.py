"""The numbers of a limit, and the exact unit in which its buckets are counted.

A token takes `T = 1 000 000 / refill_per_sec` microseconds to grow, and T is rarely a whole number: 7 a second is
142 857 1/7 µs. Rounding it would drift, so every limit counts in its own *tick*, the fraction of a microsecond
that makes T whole. With T = a/b in lowest terms,

    one microsecond = b ticks = ticks_per_us          one token = a ticks = token_ticks

and all arithmetic is exact in integers. Lua numbers are doubles, so a full bucket must stay below 2^53 ticks; where
a and b would break that, T is rounded *up* to the nearest fraction that fits (a limit may be a hair tighter than
written, never looser).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import ClassVar

from limen.core.token_bucket import Bucket, level_of, settle
from limen.errors import UsageError

__all__ = ["MAX_CAPACITY", "MAX_REFILL_PER_SEC", "Limit", "bucket_like", "check_window", "exact_rate"]

US_PER_SEC = 1_000_000
MAX_TICKS = 2**52
"""A full bucket in ticks: half of 2^53, so that one more token (an oversized cost) is exact too."""
MAX_TICKS_PER_US = 1_000_000
MIN_WINDOW_US, MAX_WINDOW_US = 1000, 70 * 365 * 86_400 * US_PER_SEC
MAX_CAPACITY = 10**9
MAX_REFILL_PER_SEC = 10**6


@dataclass(frozen=True, slots=True)
class Limit:
    """A token bucket: at most `capacity + refill_per_sec · t` in any interval of t seconds.

    Args:
        capacity: whole tokens, 0 to 10^9; a bucket is full at its first request. 0 refuses everything.
        refill_per_sec: tokens per second, 0 to 1 000 000, exact. 0 never refills: a quota that is spent once.
        start: the share of the capacity that a new bucket begins with, 0 to 1.

    Raises:
        UsageError: a number is out of range.
    """

    capacity: int
    refill_per_sec: Fraction
    start: Fraction = Fraction(1)
    token_ticks: int = field(init=False, compare=False)
    ticks_per_us: int = field(init=False, compare=False)
    ticks_per_ms: int = field(init=False, compare=False)
    full_ticks: int = field(init=False, compare=False)
    start_ticks: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.capacity <= MAX_CAPACITY:
            raise UsageError(f"capacity must be between 0 and {MAX_CAPACITY}, not {self.capacity}")
        if not 0 <= self.refill_per_sec <= MAX_REFILL_PER_SEC:
            raise UsageError(f"refill_per_sec must be between 0 and {MAX_REFILL_PER_SEC}, not {self.refill_per_sec}")
        token_ticks, ticks_per_us = _ticks(self.capacity, self.refill_per_sec)
        _set(self, "token_ticks", token_ticks)
        _set(self, "ticks_per_us", ticks_per_us)
        _set(self, "ticks_per_ms", ticks_per_us * 1000)
        _set(self, "full_ticks", self.capacity * token_ticks)
        _set(self, "start_ticks", int(self.capacity * token_ticks * self.start))

    algorithm: ClassVar[str] = "token_bucket"

    @property
    def refills(self) -> bool:
        return self.ticks_per_us > 0

    @property
    def window_s(self) -> int | None:
        """Whole seconds in which an empty bucket fills, rounded up and at least 1; None when it never does."""
        if not self.refills:
            return None
        return max(1, ceil(self.capacity / self.refill_per_sec))

    def look(self, state: Bucket | None, now_us: int, cost: int) -> int:
        """Ticks in the bucket at `now_us`."""
        return level_of(state, self, now_us)

    def spend(self, state: Bucket | None, now_us: int, cost: int) -> Bucket:
        """The bucket once `cost` tokens, which are there, are taken."""
        return settle(level_of(state, self, now_us) - cost * self.token_ticks, self, now_us)

    def stepped_back(self, state: Bucket, now_us: int) -> bool:
        """Whether the tokens were there at a moment that has not come yet."""
        return state.anchor_us > now_us

    def allows(self, level: int, cost: int) -> bool:
        """Whether a bucket that holds `level` ticks has `cost` tokens. More than the capacity is never there."""
        return cost <= self.capacity and level >= cost * self.token_ticks

    def remaining(self, level: int) -> int:
        """Whole tokens, rounded down."""
        return level // self.token_ticks

    def after(self, level: int, cost: int) -> int:
        """The level once `cost` tokens are taken."""
        return level - cost * self.token_ticks

    def retry_after_us(self, level: int, cost: int) -> int | None:
        """Microseconds until `cost` tokens are there, rounded up; 0 when they are, None when they never will be."""
        if cost > self.capacity:
            return None
        missing = cost * self.token_ticks - level
        if missing <= 0:
            return 0
        return -(-missing // self.ticks_per_us) if self.ticks_per_us else None

    def reset_after_us(self, level: int) -> int | None:
        """Microseconds until the bucket is full, rounded up; None when it never will be."""
        missing = self.full_ticks - level
        if missing <= 0:
            return 0
        return -(-missing // self.ticks_per_us) if self.ticks_per_us else None

    def later(self, level: int, us: int, cost: int, refused: int) -> int | None:
        """The most that the bucket can hold `us` later, when that is less than `cost` tokens; else None."""
        grown = min(level + us * self.ticks_per_us, max(level, self.full_ticks))
        return None if self.allows(grown, cost) else grown

    def raised(self, level: int, tokens: int) -> int:
        return level + tokens * self.token_ticks

    def share(self, parts: int, start: Fraction, at_least: int = 1) -> Limit:
        """What one of `parts` gateways may admit on its own, beginning with `start` of its part.

        The bucket has room for `at_least` tokens (the cost of one request), so that a part smaller than that is
        spent by waiting for it; it is never given away at the start. A part that would take a lifetime to refill
        does not refill.
        """
        if not self.capacity:
            return self
        capacity = max(at_least, self.capacity // parts)
        rate = self.refill_per_sec / parts
        if rate and US_PER_SEC / rate > MAX_TICKS // (capacity + 1):
            rate = Fraction(0)
        begins_with = self.capacity * start / parts
        return Limit(capacity, rate, min(Fraction(1), begins_with / capacity))


def _set(limit: Limit, name: str, value: int) -> None:
    object.__setattr__(limit, name, value)


def _ticks(capacity: int, refill_per_sec: Fraction) -> tuple[int, int]:
    """(ticks a token, ticks a microsecond); (1, 0) when nothing refills: time then adds no ticks."""
    if not refill_per_sec:
        return 1, 0
    interval = US_PER_SEC / refill_per_sec
    largest = MAX_TICKS // (capacity + 1)
    if interval.numerator <= largest and interval.denominator <= MAX_TICKS_PER_US:
        return interval.numerator, interval.denominator
    ticks_per_us = min(MAX_TICKS_PER_US, int(largest / interval))
    if ticks_per_us < 1:
        raise UsageError("a bucket would take more than 70 years to fill; raise refill_per_sec or lower capacity")
    rounded = Fraction(ceil(interval * ticks_per_us), ticks_per_us)
    return rounded.numerator, rounded.denominator


def exact_rate(tokens_per_sec: float | Fraction) -> Fraction:
    """The simple fraction that a float stands for: 0.1 is 1/10, 16.666666666666668 is 50/3, 1.6667 is 16667/10000.

    Rates below one are simplified as intervals, so that 1/86400 is exactly one a day.
    """
    rate = Fraction(tokens_per_sec)
    if rate <= 0:
        return rate
    if rate >= 1:
        return rate.limit_denominator(1_000_000)
    return 1 / (1 / rate).limit_denominator(1_000_000)


def bucket_like(capacity: int, window_us: int) -> Limit:
    """The token bucket that lets as much through as `capacity` in each window, on average."""
    return Limit(capacity, min(Fraction(capacity * US_PER_SEC, window_us), Fraction(MAX_REFILL_PER_SEC)))


def check_window(window_us: int) -> None:
    """Refuse a window that no store can keep.

    Raises:
        UsageError: shorter than a millisecond or longer than 70 years.
    """
    if not MIN_WINDOW_US <= window_us <= MAX_WINDOW_US:
        raise UsageError(f"a window must last 1 ms to 70 years, not {window_us / US_PER_SEC:g} s")
