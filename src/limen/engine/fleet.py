"""How many gateways share every limit: N, by which each knows its part while the store is away.

A fleet that seems smaller than it is would give too much away, so N rises at once and falls late: it is the most that
were alive at one time within the last ten minutes, and never below a floor that the operator sets.
"""

from __future__ import annotations

from collections.abc import Callable

from limen.errors import UsageError

__all__ = ["Fleet"]

REMEMBERED_US = 600_000_000
PERIOD_US = 10_000_000


class Fleet:
    """N, as this gateway knows it.

    Args:
        floor: how many there are at least, 1 or more.
        now_us: the local clock.

    Raises:
        UsageError: the floor is not a whole number from 1.
    """

    def __init__(self, floor: int, now_us: Callable[[], int]) -> None:
        if type(floor) is not int or floor < 1:
            raise UsageError(f"gateways must be a whole number from 1, not {floor!r}")
        self.floor = floor
        self._now_us = now_us
        self._peaks: dict[int, int] = {}
        """The most that were alive in each period of ten seconds."""
        self._elsewhere: dict[str, tuple[int, int]] = {}
        """By source: when it last told, and the most that it remembers."""
        self._counted: tuple[int, int] = (-1, floor)
        """A period, and what N was when somebody last looked in it: N falls with a new period only."""

    @property
    def size(self) -> int:
        """N: the most that were alive within the last ten minutes, the floor at least."""
        period, size = self._now_us() // PERIOD_US, self._counted[1]
        if period != self._counted[0]:
            since = period - REMEMBERED_US // PERIOD_US
            known = [*self._peaks.items(), *self._elsewhere.values()]
            size = max(self.floor, 0, *(count for at, count in known if at >= since))
            self._counted = period, size
        return size

    def heard(self, alive: int, most: int = 0, source: str = "store") -> None:
        """Somebody has counted.

        Args:
            alive: how many are alive now.
            most: how many were alive at one time within the last ten minutes, as far as whoever counted knows.
            source: who that is.
        """
        now_us = self._now_us()
        period, since = now_us // PERIOD_US, (now_us - REMEMBERED_US) // PERIOD_US
        peaks = {at: peak for at, peak in self._peaks.items() if at >= since}
        peaks[period] = max(peaks.get(period, 0), alive)
        self._peaks = peaks
        self._elsewhere = {**self._elsewhere, source: (period, most)}
        self._counted = -1, self.floor
