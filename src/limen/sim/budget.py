"""How many bytes of sampled traffic one process may leave in an hour, and what follows for its sampling. Pure."""

from __future__ import annotations

from math import exp

__all__ = ["BYTES_PER_HOUR", "Budget"]

BYTES_PER_HOUR = 2 << 20
HOUR_S = 3600


class Budget:
    """Bytes that are left of an hour. What was spent fades: of an hour ago a third counts.

    Args:
        per_hour: how many.

    Attributes:
        share: which part of the traffic that could be sampled should be, from now on.
    """

    def __init__(self, per_hour: int = BYTES_PER_HOUR) -> None:
        self.share = 1.0
        self._per_hour = per_hour
        self._spent = 0.0
        self._at_s: float | None = None

    def spend(self, size: int, now_s: float, interval_s: float, lost: bool = False) -> bool:
        """Whether a chunk of that size may be left; if so it is counted.

        Args:
            size: of the chunk, in bytes.
            now_s: seconds, of a clock that never goes back.
            interval_s: how long the chunk took to come together.
            lost: some of the traffic could not even be remembered, there was so much.
        """
        since_s = 0.0 if self._at_s is None else now_s - self._at_s
        self._at_s = now_s
        self._spent *= exp(-since_s / HOUR_S)
        fits = self._spent + size <= self._per_hour
        lasting = self._per_hour * interval_s / HOUR_S
        if not fits or lost or (size > lasting and self._spent > self._per_hour / 2):
            self.share /= 2
        elif size < lasting / 4:
            self.share = min(1.0, self.share * 2)
        self._spent += size if fits else 0
        return fits
