"""A rehearsed outage: some clients are decided as if the store were away, which it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from limen.errors import StoreError, UsageError
from limen.stores.base import Op

__all__ = ["Drill"]

LONGEST_S = 3600.0
PARTS = 10_000


class Drill:
    """Whether an outage is being rehearsed, and for whom.

    Args:
        now_us: the local clock.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.running = False
        """Whether somebody has to ask `check`."""
        self._now_us = now_us
        self._parts = 0
        self._until_us = 0

    @property
    def percent(self) -> float:
        """The share of clients now, in per cent; 0 when nothing is rehearsed."""
        return self._parts * 100 / PARTS if self.running and self._now_us() < self._until_us else 0.0

    def begin(self, percent: float, seconds: float) -> None:
        """Rehearse for so long; a percentage of 0, or no time, ends it.

        Raises:
            UsageError: not a percentage, or longer than an hour.
        """
        if not 0 <= percent <= 100:
            raise UsageError(f"a drill concerns 0 to 100 per cent of the clients, not {percent!r}")
        if not 0 <= seconds <= LONGEST_S:
            raise UsageError(f"a drill lasts up to {LONGEST_S:g} seconds, not {seconds!r}")
        self._parts = round(percent * PARTS / 100)
        self._until_us = self._now_us() + round(seconds * 1_000_000)
        self.running = self._parts > 0 and seconds > 0

    def check(self, ops: Sequence[Op], now_us: int) -> None:
        """
        Raises:
            StoreError: one of these clients takes part in it.
        """
        if now_us >= self._until_us:
            self.running = False
        elif any(crc32(op.identity.encode(errors="surrogatepass")) % PARTS < self._parts for op in ops):
            raise StoreError("an outage of the store is rehearsed", "drill")
