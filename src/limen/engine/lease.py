"""One lease of this gateway: what is left of it, and when to ask the store about it."""

from __future__ import annotations

from limen.core.lease import LeaseTerms
from limen.core.limit import Limit
from limen.stores.base import Borrow, Lent, Op

__all__ = ["Lease"]

US_PER_SEC = 1_000_000
SHORTEST_US = 100_000
"""A rate is never taken from less time than this: ten requests at once are no thousands a second."""


class Lease:
    """Tokens of one bucket. Not safe for threads: `Leases` holds a lock.

    Args:
        op: what was asked of the bucket.
        terms: how much may be borrowed.
        count: how often it was asked for lately.
        since_us: since when.
    """

    __slots__ = (
        "asked_us", "asking", "due_us", "gone", "left", "level", "limit", "low", "next_us", "op", "renew_us",
        "since_us", "terms", "until_us", "used",
    )  # fmt: skip

    def __init__(self, op: Op, terms: LeaseTerms, count: int, since_us: int) -> None:
        assert isinstance(op.limit, Limit)
        self.op = op._replace(cost=0)
        self.limit = op.limit
        self.terms = terms
        self.left = 0
        """Whole tokens that are not spent."""
        self.until_us = 0
        """When they run out."""
        self.low = 0
        """With so many left it is time to borrow anew,"""
        self.renew_us = 0
        """and also at this time."""
        self.next_us = 0
        """Not before this, for the last time was in vain."""
        self.due_us = since_us + terms.ttl_us
        """When it is given back, if nobody asked for it since `renew_us`."""
        self.level = 0
        """Ticks in the bucket, as the store said last."""
        self.used = count * op.cost
        """Whole tokens that were allowed, from leases or not,"""
        self.since_us = since_us
        """since this time."""
        self.asked_us = 0
        """When the store was asked last; before the question left."""
        self.asking = False
        """Whether somebody asks it now."""
        self.gone = False
        """Whether it is not wanted any more: it is held no longer, and what is left is given back."""

    @property
    def made_under(self) -> tuple[Limit, LeaseTerms, str]:
        """What of its rule must not change."""
        return self.limit, self.terms, self.op.colocate

    def covers(self, op: Op, now_us: int) -> bool:
        """Whether there is enough, and time."""
        return 0 < op.cost <= self.left and now_us < self.until_us and op.limit is self.limit and op.enforce

    def spend(self, cost: int) -> int:
        """Take what is there; the level before that, in ticks: what the store had left and what this gateway holds."""
        level = self.level + self.left * self.limit.token_ticks
        self.left -= cost
        return min(level, self.limit.full_ticks)

    def wants(self, now_us: int) -> bool:
        """Whether it is time to borrow."""
        return (self.left <= self.low or now_us >= self.renew_us) and now_us >= self.next_us and not self.asking

    def wish(self, gateways: int, now_us: int) -> int:
        """How many tokens it should have, by what was spent."""
        elapsed_us = max(now_us - self.since_us, SHORTEST_US)
        return self.terms.wish(self.limit.capacity, gateways, self.used * US_PER_SEC / elapsed_us)

    def put_down(self, now_us: int) -> tuple[int, int]:
        """Before the store is asked: how much is left and kept, and how much is given back."""
        self.asked_us = now_us
        if now_us >= self.until_us:
            self.left = 0
        if not self.gone:
            return self.left, 0
        back, self.left = self.left, 0
        return 0, back

    def take_up(self, borrow: Borrow, lent: Lent, now_us: int) -> bool:
        """What the store has answered; whether there is something to give back."""
        self.asking = False
        self.left = max(0, self.left - borrow.claim.left + lent.kept) + lent.tokens
        self.level = lent.seen
        self.until_us = self.asked_us + self.terms.ttl_us
        self.renew_us = self.asked_us + self.terms.ttl_us * 3 // 4
        self.due_us = self.asked_us + self.terms.ttl_us * 7 // 8
        self.used, self.since_us = 0, self.asked_us
        self.low = self.left // 4
        self.next_us = now_us if lent.tokens else now_us + self.terms.ttl_us // 2
        return self.gone and self.left > 0

    def fail(self, now_us: int) -> None:
        """The store did not answer."""
        self.asking = False
        self.next_us = now_us + self.terms.ttl_us // 2
        self.due_us = max(self.due_us, self.next_us)

    def give_up(self) -> bool:
        """It is not wanted any more; whether somebody has to be sent to give it back."""
        self.gone = True
        if self.asking or not self.left:
            return False
        self.asking = True
        return True
