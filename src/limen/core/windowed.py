"""What all limits of so many tokens in a window have in common."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from limen.core.limit import MAX_CAPACITY, Limit, bucket_like, check_window
from limen.errors import UsageError

__all__ = ["Windowed"]


@dataclass(frozen=True, slots=True)
class Windowed:
    """`capacity` tokens in a window. What is seen of one begins with the tokens that are left.

    Args:
        capacity: whole tokens, 0 to 10^9.
        window_us: the length of a window, 1 ms to 70 years.

    Raises:
        UsageError: a number is out of range.
    """

    capacity: int
    window_us: int

    def __post_init__(self) -> None:
        if not 0 <= self.capacity <= MAX_CAPACITY:
            raise UsageError(f"capacity must be between 0 and {MAX_CAPACITY}, not {self.capacity}")
        check_window(self.window_us)

    @property
    def window_s(self) -> int:
        return -(-self.window_us // 1_000_000)

    def allows(self, seen: tuple[int, ...], cost: int) -> bool:
        return cost <= self.capacity and cost <= seen[0]

    def remaining(self, seen: tuple[int, ...]) -> int:
        return seen[0]

    def share(self, parts: int, start: Fraction, at_least: int = 1) -> Limit:
        return bucket_like(self.capacity, self.window_us).share(parts, start, at_least)
