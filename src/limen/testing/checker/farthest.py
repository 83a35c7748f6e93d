"""Find the interval in which a weighted count exceeds a straight line the most.

For an interval `[a, b]` let W be the cost of all that was called at `a` or later and answered at `b` or earlier. We
look for the largest `weight · W − slope · (b − a)`. Intervals that begin at a call and end at an answer are enough.

Go through the admissions in the order of their answers. `W` for a start `a` is then a sum over later calls, so the
best start so far is a question to a tree over the calls in their order: O(n log n). Where the answers came in the
order of the calls the sum is a difference of two running totals, and the best start a running minimum: O(n).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Admission", "Found", "farthest"]


class Admission(NamedTuple):
    """Something that was let through."""

    invoked_us: int
    completed_us: int
    cost: int


class Found(NamedTuple):
    """The interval and how far it reaches above the line."""

    height: int
    start_us: int
    end_us: int


def farthest(admissions: Sequence[Admission], weight: int, slope: int) -> Found:
    """The interval with the largest `weight · W − slope · T`.

    Args:
        admissions: at least one, in the order of their calls.
        weight: of a token.
        slope: the same for a microsecond.
    """
    in_order = all(one.completed_us <= two.completed_us for one, two in pairwise(admissions))
    return _running(admissions, weight, slope) if in_order else _by_tree(admissions, weight, slope)


def _running(admissions: Sequence[Admission], weight: int, slope: int) -> Found:
    start_us, lowest = admissions[0].invoked_us, -slope * admissions[0].invoked_us
    total, best = 0, None
    for invoked_us, completed_us, cost in admissions:
        if total - slope * invoked_us < lowest:
            start_us, lowest = invoked_us, total - slope * invoked_us
        total += weight * cost
        height = total - slope * completed_us - lowest
        if best is None or height > best[0]:
            best = (height, start_us, completed_us)
    assert best is not None
    return Found(*best)


def _by_tree(admissions: Sequence[Admission], weight: int, slope: int) -> Found:
    tree = _Tree(len(admissions))
    best = None
    for at in sorted(range(len(admissions)), key=lambda at: admissions[at].completed_us):
        invoked_us, completed_us, cost = admissions[at]
        height, start = tree.add(at, weight * cost, slope * invoked_us)
        if best is None or height - slope * completed_us > best[0]:
            best = (height - slope * completed_us, admissions[start].invoked_us, completed_us)
    assert best is not None
    return Found(*best)


class _Tree:
    """Places in a row, each with a weight and a handicap. Finds the place from which on the weights sum up to most."""

    def __init__(self, count: int) -> None:
        self._leaves = 1 << (count - 1).bit_length()
        self._sums = [0] * (2 * self._leaves)
        self._bests: list[tuple[int, int] | None] = [None] * (2 * self._leaves)
        """For each part of the row: the most (handicap and sum to the end of the part), and the place of it."""

    def add(self, at: int, weight: int, handicap: int) -> tuple[int, int]:
        """Put a weight at a place; the most of all places that have one, and where it is."""
        node = at + self._leaves
        self._sums[node] = weight
        self._bests[node] = best = (handicap + weight, at)
        while node > 1:
            node >>= 1
            best = self._join(node)
        return best

    def _join(self, node: int) -> tuple[int, int]:
        left, right = self._bests[2 * node], self._bests[2 * node + 1]
        behind = self._sums[2 * node + 1]
        self._sums[node] = self._sums[2 * node] + behind
        lifted = left and (left[0] + behind, left[1])
        self._bests[node] = best = max(filter(None, (lifted, right)))
        return best
