"""One interval of one key: what passed, and what the limit has room for."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from typing import NamedTuple

__all__ = ["Overshoot"]


class Overshoot(NamedTuple):
    """What was let through for one key in one interval."""

    key: Hashable
    admitted: int
    """Tokens that passed in it for certain."""
    allowed: Fraction
    """`C + r·T`: tokens that may pass in an interval of this length."""
    start_us: int
    end_us: int

    @property
    def tokens(self) -> Fraction:
        """X: tokens beyond the limit, exact. Below 0 it stayed within it."""
        return self.admitted - self.allowed

    @property
    def ratio(self) -> float:
        """ε: X as a part of what was allowed. 0.1 is 10 % over; infinite where nothing is allowed."""
        return float(self.tokens / self.allowed) if self.allowed else math.inf

    def __str__(self) -> str:
        seconds = (self.end_us - self.start_us) / 1_000_000
        return (
            f"key {self.key!r}: {self.admitted} tokens passed within {seconds:.6f} s "
            f"(from {self.start_us} to {self.end_us} µs), where {float(self.allowed):.3f} may: "
            f"{float(self.tokens):+.3f} tokens, {100 * self.ratio:+.2f} %"
        )
