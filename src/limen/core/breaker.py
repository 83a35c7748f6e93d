"""When to stop asking a store node, and when to ask again.

    closed ──(late answers in a row, silence, or the connection is gone)──► open ──(a probe answered in time)──► closed

There is no half-open state to get stuck in: requests are never used as probes. While the breaker is open requests are
answered without the store, and one probe at a time asks whether it is back; one that is answered in time is enough.

Few requests must not keep it closed for long: after a single miss a server that says nothing more for a moment
(`SILENCE_S`) is given up as well. Only the server can be late: whoever counts here looks at the socket first.
"""

from __future__ import annotations

__all__ = ["SILENCE_S", "Breaker"]

SILENCE_S = 0.05
"""How long a server that missed a deadline may say nothing at all."""


class Breaker:
    """The state of one node.

    Args:
        misses_to_open: how many late answers in a row open it.
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

    def silent(self, misses: int) -> None:
        """`SILENCE_S` after a miss: there were `misses` since the last answer of any kind."""
        if misses:
            self.lost()

    def lost(self) -> None:
        """The connection is gone."""
        self.is_open = True

    def answered(self) -> None:
        """A probe was answered in time."""
        self.is_open = False
