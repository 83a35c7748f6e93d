"""The token bucket, exact in integers.

GCRA (ITU-T I.371; Brandur Leach, "Rate Limiting, Cells, and GCRA", 2015) keeps one number: the theoretical arrival
time, when the bucket would be full again. That number means something only together with the rate it was written
under: change the limit and the balance is lost. A bucket here keeps the same information the other way round,

    whole   tokens that were there            anchor_us + anchor_part/ticks_per_us   the moment they were there

with the anchor moved on by exactly one emission interval for each token grown. It is GCRA with
`TAT = anchor + (capacity − whole) · T`, but `whole` is a count of tokens: it survives a change of the limit, clamped
to the new capacity.

Rules that hold everywhere, and in the Lua twin (`stores/valkey/scripts/token_bucket.lua`):

- a bucket that nobody knows starts with `start_ticks` (full, but for local shares);
- a full bucket is full: what would grow beyond the capacity is lost, fractions too;
- time that went backwards adds nothing, takes nothing, and becomes the new anchor: a step of the clock costs at
  most the time that it skipped, and locks nobody out;
- a level in ticks is all that a decision needs (`limit.py` says what a tick is).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from limen.core.limit import Limit

__all__ = ["NEVER_REFILLS_TTL_MS", "Bucket", "level_of", "settle"]

NEVER_REFILLS_TTL_MS = 30 * 86_400_000
"""How long a quota that never refills is remembered after its last use: 30 days."""


class Bucket(NamedTuple):
    """What is stored for one client under one rule."""

    whole: int
    anchor_us: int
    anchor_part: int = 0


def level_of(bucket: Bucket | None, limit: Limit, now_us: int) -> int:
    """Ticks in the bucket at `now_us`, from 0 to `limit.full_ticks`."""
    if bucket is None:
        return limit.start_ticks
    whole, anchor_us, anchor_part = bucket
    grown = (now_us - anchor_us) * limit.ticks_per_us - anchor_part
    level = whole * limit.token_ticks + (grown if grown > 0 else 0)
    return level if level < limit.full_ticks else limit.full_ticks


def settle(level: int, limit: Limit, now_us: int) -> Bucket:
    """The bucket that holds `level` ticks at `now_us`."""
    whole, rest = divmod(level, limit.token_ticks)
    if not rest:
        return Bucket(whole, now_us)
    back_us, part = divmod(-rest, limit.ticks_per_us)
    return Bucket(whole, now_us + back_us, part)
