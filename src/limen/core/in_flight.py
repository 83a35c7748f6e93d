"""How many questions may be on their way to a server, so that none waits in its queue for longer than is of use.

A queue that grows until every answer is late does no work at all: the server answers nobody in time, at full speed. So
no more are let in than the server answers within a part of the deadline (Little's law). What it can do is seen where it
is too slow: a question that is that old has seen how many were answered since it left.

    a question is half a deadline old ──► as many as were answered in that time, scaled to it; never below FLOOR
    answers arrive                    ──► a sixteenth of them more, up to CEILING
    they did not wait for others      ──► as many more, up to a quarter of what was good: it stood still for a moment

The other limit is for a server that comes back: everybody begins with few, and who gets answers asks more.
"""

from __future__ import annotations

__all__ = ["CEILING", "FLOOR", "GENTLE", "InFlight"]

CEILING, GENTLE, SOON, FLOOR = 8_192, 64, 16, 4
GROWTH = 16
"""For so many answers, one question more."""


class InFlight:
    """The bound for one connection. Whoever asks compares with `most`."""

    __slots__ = ("_grown", "_since", "_soon", "most")

    def __init__(self) -> None:
        self.most = CEILING
        self._grown = 0
        """Answers that have not made the bound larger yet."""
        self._since = 0
        """Answers since it was too slow."""
        self._soon = SOON
        """Up to here the bound grows with each answer that did not wait."""

    def begin_gently(self) -> None:
        """The server was away: it is not asked everything at once."""
        self.most = GENTLE

    def answered(self, count: int, *, quickly: bool) -> None:
        """So many answers have come; `quickly` when they did not have to wait for others."""
        self._since += count
        if quickly and self.most < self._soon:
            self.most = min(self._soon, self.most + count)
        more, self._grown = divmod(self._grown + count, GROWTH)
        self.most = min(CEILING, self.most + more)

    def too_slow(self, answered: int, age_s: float, aim_s: float) -> None:
        """A question is `age_s` old and not answered; it saw so many answers in that time. They should take `aim_s`."""
        if self._since >= SOON:  # else it is the same moment still, and the bound is small already
            self._soon = max(SOON, self.most // 4)
        self._since = 0
        self.most = max(FLOOR, min(self.most, int(answered * aim_s / age_s)))
