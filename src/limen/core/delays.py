"""How long a server took to answer, counted in classes: the shape of a Prometheus histogram, without the library.

It is fed once for each batch of replies, with the delay of the oldest question in it: the slowest of the batch stands
for all of them, so the figures are never too good.
"""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["EDGES_S", "Delays"]

EDGES_S = (
    0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.008, 0.02, 0.05, 0.1, 0.5, 1.0
)  # fmt: skip
"""The upper edge of each class, in seconds, with 20 ms where Envoy stops waiting; a last class has no edge."""


class Delays:
    """Delays of one server.

    Attributes:
        counts: how many fell into each class, the open one last.
        total_s: their sum in seconds.
    """

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_S) + 1)
        self.total_s = 0.0

    def add(self, delay_s: float) -> None:
        """Count one delay in seconds. One that a clock made negative counts as none."""
        self.counts[bisect_left(EDGES_S, delay_s)] += 1
        self.total_s += max(0.0, delay_s)

    def within(self) -> list[tuple[str, int]]:
        """(upper edge in seconds as text, how many took no longer), the open class last: what exporters show."""
        edges = [*(f"{edge:g}" for edge in EDGES_S), "+Inf"]
        seen = 0
        shown = []
        for edge, count in zip(edges, self.counts, strict=True):
            seen += count
            shown.append((edge, seen))
        return shown
