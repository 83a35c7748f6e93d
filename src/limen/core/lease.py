"""Leases: tokens that a gateway borrows in one call and spends on its own, without asking for each request.

What is borrowed has left the bucket already, so spending it later is the only thing that can go beyond the limit: in an
interval of length T at most `C + r·T` is taken from the bucket, and what was on loan when it began can be spent too.
The store keeps that sum, for all gateways together, at or below `most(C)`, and so `X ≤ most(C)` however many gateways
there are:

    lent = min(wanted, most(C) − on loan, half of what is there)

A gateway counts the time of its lease from before it asked, the store from when it answered: what a gateway still
spends the store still counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from limen.errors import UsageError

__all__ = ["BETA", "MOST_BETA", "SHORTEST_TTL_US", "LeaseTerms"]

BETA = Fraction(3, 100)
"""The part of a limit's capacity that may be on loan at any time, all gateways together, with `lease: auto`."""
MOST_BETA = Fraction(1, 10)
"""The same for a rule that names the size of its leases."""

US_PER_SEC = 1_000_000
SHORTEST_TTL_US, LONGEST_TTL_US = US_PER_SEC // 10, 2 * US_PER_SEC
SMALLEST = 2
"""A lease of one token would save nothing."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How much a gateway may borrow under a rule, and for how long.

    Args:
        size: whole tokens that a gateway holds at most, from 2; None: by what its client spends, and no more than this
            gateway's part of what may be on loan.
        ttl_us: microseconds that a lease lasts, 0.1 to 2 seconds. A gateway that crashes loses what it held; the store
            counts it for no longer than this.

    Raises:
        UsageError: a number is out of range.
    """

    size: int | None = None
    ttl_us: int = US_PER_SEC

    def __post_init__(self) -> None:
        if not SHORTEST_TTL_US <= self.ttl_us <= LONGEST_TTL_US:
            raise UsageError(f"a lease lasts 0.1 to 2 seconds, not {self.ttl_us / US_PER_SEC:g}")
        if self.size is not None and self.size < SMALLEST:
            raise UsageError(f"a lease has {SMALLEST} tokens or more, not {self.size}")

    @property
    def beta(self) -> Fraction:
        """The part of the capacity that may be on loan: the overshoot at most, relative to C."""
        return BETA if self.size is None else MOST_BETA

    def most(self, capacity: int) -> int:
        """Whole tokens that may be on loan of one bucket at any time, all gateways together."""
        return int(capacity * self.beta)

    def worth(self, capacity: int, gateways: int) -> bool:
        """Whether there is enough to lend that every gateway could have a lease at the same time."""
        return self.size is not None or capacity * BETA >= SMALLEST * gateways

    def wish(self, capacity: int, gateways: int, tokens_per_s: float) -> int:
        """Whole tokens that a gateway should hold for a client that spends so much on it; 0 when it is not worth it."""
        part = self.most(capacity) // gateways if self.size is None else min(self.size, self.most(capacity))
        size = min(part, ceil(tokens_per_s * self.ttl_us / US_PER_SEC))
        return size if size >= SMALLEST and self.worth(capacity, gateways) else 0
