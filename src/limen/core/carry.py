"""What a client has left when the limit that it counts under becomes another one.

    how            token bucket: what is left               windows and logs: what is left
    as-is          min(old, new capacity)                   what was spent stays spent: new capacity - spent
    proportional   old * new capacity / old capacity        the same
    additive       min(old, new capacity) + what it was raised by, if it was
    reset          everything

(The four of bucket4j, `TokensInheritanceStrategy`.) For how long a window lasts nothing changes by this.

A bucket is converted once, by its store, in the step in which it is asked for the first time under the new limit:
from what is left at that moment under the limit that it was counted by so far. Then it carries a stamp: the generation
of the limit, its numbers, and until when that matters. Gateways follow a change one after the other, and a stamp makes
them agree:

- no stamp, or one of an older generation: convert, and stamp;
- the same generation: go on;
- a newer one, so this gateway is the one that is late: the bucket counts by the numbers on its stamp, and the late
  limit only says how much is given at once. What is late neither converts back nor takes away.

After `until_us` every bucket that nobody converted is full under either limit: stamps mean nothing any more, and plain
buckets come back. Without a `Carry` a change is as-is and costs nothing.

Python and Lua (`stores/valkey/scripts/carry.lua`) must come to the same number, so `scaled` is exact where a double is.
"""

from __future__ import annotations

from math import floor, gcd
from typing import Any, Final, Literal, NamedTuple, cast

from limen.core.algorithm import AnyLimit, Seen
from limen.core.fixed_window import FixedWindow, Window
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog, Spent
from limen.core.sliding_window import Counts, SlidingWindow
from limen.core.token_bucket import NEVER_REFILLS_TTL_MS

__all__ = ["AS_IS", "CARRY_OVERS", "Carry", "CarryOver", "carried_level", "carried_state", "lasts_us", "told"]

CarryOver = Literal["as-is", "proportional", "additive", "reset"]
CARRY_OVERS: Final[tuple[CarryOver, ...]] = ("as-is", "proportional", "additive", "reset")
AS_IS: Final = "as-is"
EXACT = 2**53


class Carry(NamedTuple):
    """A limit that others are to be converted to."""

    generation: int
    """Grows with every change of the limit; from 1."""
    how: CarryOver
    before: AnyLimit | None
    """What buckets without a stamp were counted by. None: they stay as they are."""
    until_us: int
    """Microseconds since 1970, by the clock of the store: from then on nothing is converted."""


def lasts_us(limit: AnyLimit) -> int:
    """For how long a bucket says anything after its last use."""
    if isinstance(limit, Limit):
        return NEVER_REFILLS_TTL_MS * 1000 if not limit.refills else -(-limit.full_ticks // limit.ticks_per_us)
    return 2 * 1_000_000 * (limit.window_s or 0)


def scaled(amount: int, by: int, of: int) -> int:
    """`amount · by / of`, rounded down; `by` when `of` is 0. Beyond 2^53 it is as near as doubles are."""
    if not of:
        return by
    common = gcd(by, of)
    by, of = by // common, of // common
    whole, rest = divmod(amount, of)
    if rest * by < EXACT:
        return whole * by + rest * by // of
    return whole * by + floor(rest / of * by)


def carried_level(level: int, before: Limit, after: Limit, how: CarryOver) -> int:
    """What is left in a token bucket, in ticks of `after`."""
    if how == "reset":
        return after.full_ticks
    if how == "proportional":
        return min(after.full_ticks, scaled(level, after.full_ticks, before.full_ticks))
    raised = max(0, after.capacity - before.capacity) if how == "additive" else 0
    tokens = scaled(level, after.token_ticks, before.token_ticks) + raised * after.token_ticks
    return min(after.full_ticks, tokens)


def carried_left(left: int, before: int, after: int, how: CarryOver) -> int:
    """What is left of a window with a capacity of `before`, once that is `after`."""
    if how == "reset":
        return after
    if how == "proportional":
        return min(after, scaled(left, after, before))
    if how == "additive":
        return min(left, after) + max(0, after - before)
    return max(0, after - (before - left))


def carried_state(state: Any, before: AnyLimit, after: AnyLimit, how: CarryOver, now_us: int) -> Any:
    """What is stored of a window or a log, once its limit is another one of the same kind."""
    if how == AS_IS:
        return state
    if isinstance(before, SlidingWindow):
        return _carried_counts(before.spend(state, now_us, 0), before.capacity, after.capacity, how)
    if isinstance(before, SlidingLog):
        return _carried_log(before.spend(state, now_us, 0), before.capacity, after.capacity, how)
    used, end_us = cast("FixedWindow", before).spend(state, now_us, 0)
    left = carried_left(before.capacity - used, before.capacity, after.capacity, how)
    return Window(after.capacity - left, end_us)


def _carried_counts(counts: Counts, before: int, after: int, how: CarryOver) -> Counts:
    """Proportional: each count. Additive: what it was lowered by is forgotten, of this window first."""
    current, start_us, previous = counts
    if how == "reset":
        return Counts(0, start_us, 0)
    if how == "proportional":
        return Counts(_raised(current, after, before), start_us, _raised(previous, after, before))
    lowered = max(0, before - after)
    return Counts(max(0, current - lowered), start_us, max(0, previous - max(0, lowered - current)))


def _raised(count: int, after: int, before: int) -> int:
    """A count of a window in proportion, rounded up."""
    return after - min(after, scaled(before - count, after, before))


def _carried_log(spent: Spent, before: int, after: int, how: CarryOver) -> Spent:
    """As many moments as are spent now, spread evenly over those that there were; the last is among them."""
    left = carried_left(max(0, before - len(spent)), before, after, how)
    count = after - left if spent else 0
    return tuple(spent[-(-number * len(spent) // count) - 1] for number in range(1, count + 1))


def told(seen: Seen, counted_by: AnyLimit, asked_by: AnyLimit) -> Seen:
    """What is in a bucket, in the words of a limit that is late: no more than that knows of."""
    if isinstance(counted_by, Limit):
        asked = cast("Limit", asked_by)
        return min(asked.full_ticks, scaled(seen, asked.token_ticks, counted_by.token_ticks))
    left = min(seen[0], asked_by.capacity)
    if isinstance(counted_by, SlidingWindow):
        return left, asked_by.capacity - left, 0, min(seen[3], cast("SlidingWindow", asked_by).window_us)
    return (left, *seen[1:])
