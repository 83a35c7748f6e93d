"""What later intervals can need of old admissions: one sum.

An interval that ends later and begins at an old call `a` holds all old admissions from `a` on. So between two old calls
the better start is the same for every later end, and only the best is kept: as one admission, of all that came since.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from limen.testing.checker.farthest import Admission

__all__ = ["settled"]


def settled(admissions: Sequence[Admission], per_us: Fraction, before_us: int) -> list[Admission]:
    """The same, shorter, for ends after `before_us`.

    Args:
        admissions: in the order of their calls, with all that were called before then.
        per_us: tokens that grow in a microsecond.
    """
    late = [each.invoked_us for each in admissions if each.completed_us > before_us]
    edge_us = min([before_us, *late])
    old = [each for each in admissions if each.invoked_us < edge_us]
    if not old:
        return list(admissions)
    return [_best(old, per_us), *admissions[len(old) :]]


def _best(old: Sequence[Admission], per_us: Fraction) -> Admission:
    """From the best start on: most tokens, seen from later."""
    weight, slope = per_us.denominator, per_us.numerator
    total, best, start = 0, None, 0
    for at in range(len(old) - 1, -1, -1):
        total += old[at].cost
        height = weight * total + slope * old[at].invoked_us
        if best is None or height > best:
            best, start = height, at
    chosen = old[start:]
    return Admission(chosen[0].invoked_us, max(each.completed_us for each in chosen), sum(each.cost for each in chosen))
