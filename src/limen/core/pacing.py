"""Pacing: the leaky bucket as a queue. It never refuses for being too fast; it says how long to wait.

The theoretical arrival time of GCRA (ITU-T I.371) is kept, in ticks of the limit (`core.limit`): the moment at which
everything promised so far has leaked out. A request of cost n moves it on by n emission intervals and waits for
whatever lies beyond a full bucket:

    arrival = max(arrival, now) + n · T          wait = arrival − capacity · T − now

So the first `capacity` tokens of a burst pass at once and the rest leaves one by one, evenly.
"""

from __future__ import annotations

from typing import NamedTuple

from limen.core.limit import Limit
from limen.errors import UsageError

__all__ = ["Turn", "take_turn"]


class Turn(NamedTuple):
    """A place in the queue."""

    wait_us: int
    """How long to wait, rounded up; 0 to go at once."""
    arrival: int
    """What the next caller must be given."""


def take_turn(
    arrival: int | None, limit: Limit, now_us: int, cost: int = 1, longest_us: int | None = None
) -> Turn | None:
    """A place in the queue, or None when the wait would be longer than `longest_us`: then nothing was promised.

    Args:
        arrival: of the turn before this one; None at the first.
        limit: the pace, and as its capacity how much may go at once.
        now_us: of a clock that never goes back.
        cost: tokens; more than the capacity is allowed and waits.

    Raises:
        UsageError: the limit never refills, so there is nothing to wait for.
    """
    if not limit.refills:
        raise UsageError("pacing needs a rate; this limit never refills")
    now = now_us * limit.ticks_per_us
    after = max(now if arrival is None else arrival, now) + cost * limit.token_ticks
    wait_us = max(0, -((limit.full_ticks + now - after) // limit.ticks_per_us))
    if longest_us is not None and wait_us > longest_us:
        return None
    return Turn(wait_us, after)
