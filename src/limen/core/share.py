"""What one gateway may admit by itself while the store does not answer, and what it then owes the store.

N gateways that cannot ask share a limit of C tokens and r tokens a second: each has a bucket of C/N that refills at r/N
and begins with `START` of it, because the client may just have spent its limit at the store (`AnyLimit.share`).

When the store answers again it has refilled its own bucket at r all the while and knows nothing of what was spent
here. Charging it with everything that was spent would be wrong: a client that kept to its rate for an hour would be
locked out. A gateway keeps, for each bucket, what is `used` of its part,

    used := max(0, used − r/N · t) + cost        beginning with U₀/N, what was used of the whole bucket before

and owes min(spent, used). Why that is enough: let U be the used part of an ideal bucket, which U ≤ C is the promise of.
It obeys the same recursion at r from U₀, so it is either what was admitted since some moment without the store, less
what has grown since, or U₀ + spent − r·D after D seconds. The sum of what the gateways keep is never below either. The
store itself has max(0, U₀ − r·D) left of U₀, and where that is not 0, all that was spent is owed. So after a settlement
nothing is over. What is over meanwhile is what the shares were given at the start: `START`·C at most.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from limen.core.limit import Limit

__all__ = ["START", "owed", "used_after"]

START = Fraction(1, 10)
"""The part of its share that a gateway begins with; a full start could be 140 % of C in all."""
ROUNDING = 1e-6
"""Of a token: what floats may be off by."""


def used_after(used: float, us: int, share: Limit, cost: int) -> float:
    """Tokens that are used of a share, once `cost` more are.

    Args:
        used: the same, `us` microseconds ago.
        share: its part of the limit.
    """
    return max(0.0, used - us * share.ticks_per_us / share.token_ticks) + cost


def owed(spent: int, used: float) -> int:
    """Whole tokens that a gateway owes the store on its return: rounded up, and never more than it spent."""
    return min(spent, ceil(used - ROUNDING))
