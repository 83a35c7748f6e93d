"""Concurrency limits: so many at a time, each holding a slot that lapses.

A slot is held by a name for as long as the holder renews it. So a holder that died frees its slot by doing nothing,
releasing twice is harmless, and nobody can release what another holds.

Nobody holds a slot for longer than one lease from now: what a clock that stepped back left further in the future is
pulled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from limen.errors import UsageError

__all__ = ["Held", "SlotLimit", "SlotsSeen", "acquire", "release", "renew"]

Held = Mapping[str, int]
"""Who holds a slot, and until when, in microseconds."""
MAX_SLOTS = 100_000
SHORTEST_LEASE_US, LONGEST_LEASE_US = 100_000, 86_400_000_000


@dataclass(frozen=True, slots=True)
class SlotLimit:
    """At most `capacity` at a time.

    Args:
        capacity: 1 to 100 000 slots.
        lease_us: how long a slot is held without being renewed, 0.1 s to a day.

    Raises:
        UsageError: a number is out of range.
    """

    capacity: int
    lease_us: int = 30_000_000
    algorithm: ClassVar[str] = "concurrency"

    def __post_init__(self) -> None:
        if not 1 <= self.capacity <= MAX_SLOTS:
            raise UsageError(f"a concurrency limit is 1 to {MAX_SLOTS}, not {self.capacity}")
        if not SHORTEST_LEASE_US <= self.lease_us <= LONGEST_LEASE_US:
            raise UsageError(f"a slot is held for 0.1 s to a day at a time, not {self.lease_us / 1e6:g} s")


class SlotsSeen(NamedTuple):
    """What was found when a slot was asked for."""

    held: int
    """Slots that others hold."""
    first_lapses_us: int
    """Microseconds until the first slot lapses, if nobody renews it: when it is worth asking again at the latest."""

    def allows(self, limit: SlotLimit) -> bool:
        """Whether the slot is held now."""
        return self.held < limit.capacity


def acquire(held: Held, limit: SlotLimit, holder: str, now_us: int) -> tuple[SlotsSeen, Held]:
    """What was found, and who holds slots after it."""
    lasting = _lasting(held, limit, now_us)
    others = len(lasting) - (holder in lasting)
    seen = SlotsSeen(others, min(lasting.values(), default=now_us) - now_us)
    if seen.allows(limit):
        lasting[holder] = now_us + limit.lease_us
    return seen, lasting


def renew(held: Held, limit: SlotLimit, holder: str, now_us: int) -> tuple[bool, Held]:
    """Whether it was still held, and who holds slots after it. What has lapsed is not given back."""
    if held.get(holder, 0) <= now_us:
        return False, held
    return True, {**held, holder: now_us + limit.lease_us}


def release(held: Held, holder: str, now_us: int) -> tuple[bool, Held]:
    """Whether it was still held, and who holds slots after it."""
    return held.get(holder, 0) > now_us, {name: until for name, until in held.items() if name != holder}


def _lasting(held: Held, limit: SlotLimit, now_us: int) -> dict[str, int]:
    latest = now_us + limit.lease_us
    return {name: min(until, latest) for name, until in held.items() if until > now_us}
