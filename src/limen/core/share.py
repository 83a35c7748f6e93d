"""What one gateway may admit by itself while the store does not answer, and what it then owes the store.

N gateways that cannot ask share a limit of C tokens and r tokens a second: each has a bucket of C/N that refills at r/N
and begins with `START` of it, because the client may just have spent its limit at the store (`AnyLimit.share`).

When the store answers again it has refilled its own bucket at r all the while and knows nothing of what was spent
here. Charging it with everything that was spent would be wrong: a client that kept to its rate for an hour would be
locked out. A gateway owes

    min(spent, deficit)        deficit = C/N − what its share holds now

Why that is enough. Let U(t) be the used part of an ideal bucket: it grows by what is admitted, shrinks at r, never below
0, and U ≤ C is the promise. A deficit obeys the same recursion at r/N and begins at (1 − START)·C/N, so it is never
below what the admissions of that gateway alone have used, and the sum of the deficits is never below what all have used
together since the store was lost. What was used before that has shrunk at r in the store's own bucket. The sum of both
may lack what the shares were given at the start, and nothing more: at most `START`·C beyond C + r·T in any interval.
"""

from __future__ import annotations

from fractions import Fraction

from limen.core.limit import Limit

__all__ = ["START", "owed"]

START = Fraction(1, 10)
"""The part of its share that a gateway begins with ; a full start could be 140 % of C in all."""


def owed(spent: int, capacity: int, parts: int, share: Limit, level: int) -> int:
    """Whole tokens that a gateway owes the store on its return: rounded up, and never more than it spent.

    A share has room for whole tokens, and for one request at least; where that is not C/N, the larger counts.

    Args:
        spent: whole tokens that it admitted by itself.
        capacity: C, of the whole limit.
        parts: N.
        share: its part of the limit.
        level: ticks that are left of it.
    """
    room = max(share.full_ticks, -(-capacity * share.token_ticks // parts))
    return min(spent, -(-(room - level) // share.token_ticks))
