"""How much of a time span an event loop was busy with something else, or had no processor."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

__all__ = ["Lateness"]


class Lateness:
    """The spans in which a loop did not beat.

    Args:
        found: (when it beat at last, how late that was), in microseconds.
    """

    def __init__(self, found: Iterable[tuple[int, int]]) -> None:
        self.spans = sorted((at - late, at) for at, late in found)
        self._ends = [end for _, end in self.spans]

    def within(self, start_us: int, end_us: int) -> int:
        """Microseconds between two moments that it was late in all."""
        late = 0
        for begin, end in self.spans[bisect_right(self._ends, start_us) :]:
            if begin >= end_us:
                break
            late += min(end, end_us) - max(begin, start_us)
        return late

    def longest(self, start_us: int = 0, end_us: int = 1 << 62) -> int:
        """The longest such span that ended between two moments."""
        return max((end - begin for begin, end in self.spans if start_us <= end < end_us), default=0)
