"""The fixed window: so many tokens, then none until the window ends.

A window begins with the first request of a client, so clients are not all let in at the same second. Around the end
of a window up to twice the capacity can pass within a moment: a client that spends everything just before the end
spends everything again just after it. Where that matters use a token bucket, or the sliding log.

A window is known by its end. That makes it robust: whatever changes (the length of the window, the clock of the
store), an end further away than a whole window is pulled in, and the tokens stay spent until then. Nobody is given a
window twice, and nobody waits longer than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from limen.core.windowed import Windowed

__all__ = ["FixedWindow", "Window", "WindowSeen"]

WindowSeen = tuple[int, int]
"""Tokens left, and microseconds until the window ends: a whole window when none has begun."""


class Window(NamedTuple):
    """What is stored for one client under one rule."""

    used: int
    end_us: int


@dataclass(frozen=True, slots=True)
class FixedWindow(Windowed):
    """At most `capacity` tokens in each window."""

    algorithm: ClassVar[str] = "fixed_window"

    def end_of_window(self, now_us: int) -> int:
        """When a window ends that is begun now."""
        return now_us + self.window_us

    def look(self, state: Window | None, now_us: int, cost: int) -> WindowSeen:
        used, end_us = self.spend(state, now_us, 0)
        return self.capacity - used, end_us - now_us

    def spend(self, state: Window | None, now_us: int, cost: int) -> Window:
        end_us = self.end_of_window(now_us)
        if state is None or state.end_us <= now_us:
            return Window(cost, end_us)
        return Window(min(state.used, self.capacity) + cost, min(state.end_us, end_us))

    def stepped_back(self, state: Window, now_us: int) -> bool:
        return state.end_us > self.end_of_window(now_us)

    def after(self, seen: WindowSeen, cost: int) -> WindowSeen:
        return seen[0] - cost, seen[1]

    def retry_after_us(self, seen: WindowSeen, cost: int) -> int | None:
        if cost > self.capacity:
            return None
        return 0 if cost <= seen[0] else seen[1]

    def reset_after_us(self, seen: WindowSeen) -> int:
        return 0 if seen[0] >= self.capacity else seen[1]

    def later(self, seen: WindowSeen, us: int, cost: int, refused: int) -> WindowSeen | None:
        left, until_end_us = seen
        return None if us >= until_end_us or self.allows(seen, cost) else (left, until_end_us - us)

    def raised(self, seen: WindowSeen, tokens: int) -> WindowSeen:
        return seen[0] + tokens, seen[1]
