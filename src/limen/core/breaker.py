"""When to stop asking a store node, and when to ask again.

    closed ──(a run of misses, or the connection is gone)──► open ──(a probe answered in time)──► closed

There is no half-open state to get stuck in: requests are never used as probes. While the breaker is open requests are
answered without the store, and one probe at a time asks whether it is back.
"""

from __future__ import annotations

__all__ = ["Breaker"]


class Breaker:
    """The state of one node.

    Args:
        misses_to_open: how many deadlines in a row, without a reply between them, open it.
    """

    __slots__ = ("_misses_to_open", "is_open")

    def __init__(self, misses_to_open: int) -> None:
        self._misses_to_open = misses_to_open
        self.is_open = True
        """A node is down until it has answered once."""

    def missed(self, misses: int) -> None:
        """`misses` deadlines have passed in a row."""
        if misses >= self._misses_to_open:
            self.lost()

    def lost(self) -> None:
        """The connection is gone."""
        self.is_open = True

    def answered(self) -> None:
        """A probe was answered in time."""
        self.is_open = False
