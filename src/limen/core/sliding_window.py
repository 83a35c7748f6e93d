"""The sliding window counter: two counts, one of them fading.

The last window counts in proportion to how much of it still lies within one window from now:

    used = current + previous · (1 − elapsed/window)                      (Cloudflare, "Counting things", 2017)

Two numbers a client whatever the limit, no edge at which everything comes back at once. It assumes that the last
window was used evenly, so an interval as long as the window can see more than the capacity: like a token bucket, up
to twice as much after a rest. Where "never more than N in any minute" must hold, use the sliding log.

Windows of a client begin with its first request. All of it is exact in integers: time is rounded down to a unit in
which `capacity · window` stays below 2^51, so that Lua's doubles hold every product.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from limen.core.windowed import Windowed

__all__ = ["Counts", "SlidingSeen", "SlidingWindow"]

MAX_PRODUCT = 2**51

SlidingSeen = tuple[int, int, int, int]
"""Tokens left, spent in this window, spent in the last, microseconds since this window began."""


class Counts(NamedTuple):
    """What is stored for one client under one rule."""

    current: int
    start_us: int
    previous: int


@dataclass(frozen=True, slots=True)
class SlidingWindow(Windowed):
    """About `capacity` tokens in any window."""

    unit_us: int = field(init=False, compare=False)
    units: int = field(init=False, compare=False)
    """The window in units."""
    algorithm: ClassVar[str] = "sliding_window"

    def __post_init__(self) -> None:
        Windowed.__post_init__(self)
        unit_us = -(-self.window_us * max(1, self.capacity) // MAX_PRODUCT)
        object.__setattr__(self, "unit_us", unit_us)
        object.__setattr__(self, "units", self.window_us // unit_us)

    def look(self, state: Counts | None, now_us: int, cost: int) -> SlidingSeen:
        current, start_us, previous = self.spend(state, now_us, 0)
        elapsed_us = now_us - start_us
        return self._left(current, previous, elapsed_us), current, previous, elapsed_us

    def spend(self, state: Counts | None, now_us: int, cost: int) -> Counts:
        if state is None:
            return Counts(cost, now_us, 0)
        current, start_us, previous = state
        windows = (now_us - start_us) // self.window_us
        if windows >= 2:
            return Counts(cost, now_us, 0)
        if windows == 1:
            current, start_us, previous = 0, start_us + self.window_us, current
        start_us = min(start_us, now_us)
        return Counts(min(current, self.capacity) + cost, start_us, min(previous, self.capacity))

    def stepped_back(self, state: Counts, now_us: int) -> bool:
        return state.start_us > now_us

    def after(self, seen: SlidingSeen, cost: int) -> SlidingSeen:
        left, current, previous, elapsed_us = seen
        return left - cost, current + cost, previous, elapsed_us

    def retry_after_us(self, seen: SlidingSeen, cost: int) -> int | None:
        if cost > self.capacity:
            return None
        left, current, previous, elapsed_us = seen
        if cost <= left:
            return 0
        wanted = cost - (left - self._left(current, previous, elapsed_us))
        free = self.capacity - wanted
        if current <= free:
            return self._faded_us(previous, free - current) - elapsed_us
        return self.window_us - elapsed_us + self._faded_us(current, free)

    def reset_after_us(self, seen: SlidingSeen) -> int:
        _, current, previous, elapsed_us = seen
        if current:
            return 2 * self.window_us - elapsed_us
        return self.window_us - elapsed_us if previous else 0

    def later(self, seen: SlidingSeen, us: int, cost: int, refused: int) -> SlidingSeen | None:
        left, current, previous, elapsed_us = seen
        extra = left - self._left(current, previous, elapsed_us)
        known = self.look(Counts(current, 0, previous), elapsed_us + us, cost)
        most = self.raised(known, extra)
        return None if self.allows(most, cost) else most

    def raised(self, seen: SlidingSeen, tokens: int) -> SlidingSeen:
        return seen[0] + tokens, seen[1], seen[2], seen[3]

    def _left(self, current: int, previous: int, elapsed_us: int) -> int:
        """Whole tokens that are not used."""
        fading = self.units - min(self.units, elapsed_us // self.unit_us)
        free = (self.capacity - current) * self.units - previous * fading
        return max(0, free // self.units)

    def _faded_us(self, count: int, to: int) -> int:
        """Since its window ended: when `count` of the last window weighs no more than `to`."""
        return (self.units - to * self.units // count) * self.unit_us
