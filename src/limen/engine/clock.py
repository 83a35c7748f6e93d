"""The clock of everything local. It never goes back: wall time belongs to the store."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import Protocol

__all__ = ["Clock", "SystemClock", "epoch_clock"]


class Clock(Protocol):
    """Microseconds since some fixed moment."""

    def now_us(self) -> int: ...


class SystemClock:
    """The monotonic clock of this machine, and its time of day."""

    @staticmethod
    def now_us() -> int:
        return monotonic_ns() // 1000

    @staticmethod
    def epoch_us() -> int:
        return time_ns() // 1000


def epoch_clock(clock: Clock) -> Callable[[], int]:
    """Microseconds since 1970, for calendars: from the clock's own `epoch_us`, or from one that has a single time."""
    own: Callable[[], int] = getattr(clock, "epoch_us", clock.now_us)
    return own
