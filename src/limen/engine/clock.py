"""The clock of everything local. It never goes back: wall time belongs to the store."""

from __future__ import annotations

from time import monotonic_ns
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Microseconds since some fixed moment."""

    def now_us(self) -> int: ...


class SystemClock:
    """The monotonic clock of this machine."""

    @staticmethod
    def now_us() -> int:
        return monotonic_ns() // 1000
