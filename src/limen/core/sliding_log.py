"""The sliding log: never more than N in any window, because every token that was spent is remembered.

The one algorithm without an approximation and without a burst beyond N; its price is memory, eight bytes for each
token of the limit and client. That is why it is bounded.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import ClassVar

from limen.core.windowed import Windowed
from limen.errors import UsageError

__all__ = ["MAX_LOGGED", "LogSeen", "SlidingLog", "Spent"]

MAX_LOGGED = 1000

Spent = tuple[int, ...]
"""What is stored: when each token was spent, oldest first."""
LogSeen = tuple[int, int, int]
"""Tokens left, microseconds until what was asked for is there, and until all is."""


@dataclass(frozen=True, slots=True)
class SlidingLog(Windowed):
    """At most `capacity` tokens in any interval as long as the window.

    Args:
        capacity: whole tokens, 0 to 1000.
        window_us: the length of the window, 1 ms to 70 years.

    Raises:
        UsageError: a number is out of range.
    """

    algorithm: ClassVar[str] = "sliding_log"

    def __post_init__(self) -> None:
        if not 0 <= self.capacity <= MAX_LOGGED:
            raise UsageError(
                f"a sliding_log remembers every token, at most {MAX_LOGGED} a client, not {self.capacity}; "
                "use sliding_window or token_bucket for larger limits"
            )
        Windowed.__post_init__(self)

    def look(self, state: Spent | None, now_us: int, cost: int) -> LogSeen:
        spent = self.spend(state, now_us, 0)
        if not spent:
            return self.capacity, 0, 0
        must_go = len(spent) + cost - self.capacity
        wait_us = spent[min(must_go, len(spent)) - 1] + self.window_us - now_us if must_go > 0 else 0
        return max(0, self.capacity - len(spent)), wait_us, spent[-1] + self.window_us - now_us

    def spend(self, state: Spent | None, now_us: int, cost: int) -> Spent:
        spent = state or ()
        if spent and spent[-1] > now_us:
            spent = tuple(min(moment, now_us) for moment in spent)
        gone = bisect_right(spent, now_us - self.window_us)
        return spent[gone:] + (now_us,) * cost

    def stepped_back(self, state: Spent, now_us: int) -> bool:
        return bool(state) and state[-1] > now_us

    def after(self, seen: LogSeen, cost: int) -> LogSeen:
        return (seen[0] - cost, 0, self.window_us) if cost else seen

    def retry_after_us(self, seen: LogSeen, cost: int) -> int | None:
        if cost > self.capacity:
            return None
        return 0 if cost <= seen[0] else seen[1]

    def reset_after_us(self, seen: LogSeen) -> int:
        return seen[2]

    def later(self, seen: LogSeen, us: int, cost: int, refused: int) -> LogSeen | None:
        left, wait_us, reset_us = seen
        return (left, wait_us - us, reset_us - us) if cost >= refused and us < wait_us else None

    def raised(self, seen: LogSeen, tokens: int) -> LogSeen:
        return seen[0] + tokens, seen[1], seen[2]
