"""When to stop asking a store node, and when to ask again.

    closed ──(no answer in time, or the connection is gone)──► open ──(a probe answered in time)──► closed

A single late answer arms a doubt: when none comes in time for `DOUBT_S`, not even to a question that asks nothing, the
server is given up. So it takes no more than a tenth of a second with few requests too, and a hiccup of a few
milliseconds opens nothing. Very many late answers at once leave no doubt.

There is no half-open state to get stuck in: requests are never used as probes. While the breaker is open requests are
answered without the store, and one probe at a time asks whether it is back; one that is answered in time is enough.
"""

from __future__ import annotations

__all__ = ["DOUBT_S", "Breaker"]

DOUBT_S = 0.05
"""How long after a late answer one may come in time."""


class Breaker:
    """The state of one node.

    Args:
        misses_to_open: how many late answers in a row open it at once.
    """

    __slots__ = ("_misses_to_open", "is_open")

    def __init__(self, misses_to_open: int) -> None:
        self._misses_to_open = misses_to_open
        self.is_open = True
        """A node is down until it has answered once."""

    def missed(self, misses: int) -> None:
        """`misses` deadlines have passed, and no answer came in time between them."""
        if misses >= self._misses_to_open:
            self.lost()

    def lost(self) -> None:
        """The connection is gone, or nothing came in time for too long."""
        self.is_open = True

    def answered(self) -> None:
        """A probe was answered in time."""
        self.is_open = False
