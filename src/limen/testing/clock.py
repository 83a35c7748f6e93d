"""Time that moves when the test says so."""

from __future__ import annotations

from limen.errors import UsageError

__all__ = ["ManualClock"]


class ManualClock:
    """A clock for `Limiter(..., clock=ManualClock())`: it moves everything local (memory store, deny cache, shares).

    Args:
        start: seconds, where it begins.
    """

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now_us = round(start * 1_000_000)

    def now_us(self) -> int:
        """Microseconds, as limiters read them."""
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`, exact to the microsecond."""
        if seconds < 0:
            raise UsageError("time only moves on; to step the clock back say set(seconds)")
        self._now_us += round(seconds * 1_000_000)

    def set(self, seconds: float) -> None:
        """Step to a moment, earlier ones too: what a machine's clock may do and a limiter must survive."""
        self._now_us = round(seconds * 1_000_000)
