"""What a gateway owes to one bucket of the store."""

from __future__ import annotations

from limen.core.algorithm import Seen
from limen.core.limit import Limit
from limen.core.share import owed, used_after
from limen.stores.base import Charge, Op

__all__ = ["LONG_AGO_US", "Debt"]

LONG_AGO_US = -(2**62)


class Debt:
    """What is owed to one bucket."""

    __slots__ = (
        "asked_us", "at_us", "busy", "charge", "firm", "left", "named_us", "op", "paid", "paid_us", "share", "short",
        "spent",
        "unasked_us", "used", "used_us",
    )  # fmt: skip

    def __init__(self, op: Op) -> None:
        self.op = op
        self.spent = 0
        """Whole tokens that were admitted without the store and are not charged yet."""
        self.firm = 0
        """The same, of which nothing has grown back: the server's own bucket has what grew, and gave it to others."""
        self.used = 0.0
        """What is used of this gateway's part, in tokens, at `used_us`."""
        self.paid = 0.0
        """The part of it that the store has charged."""
        self.used_us = 0
        self.share: Limit | None = None
        """This gateway's part, since something was spent of it."""
        self.unasked_us = self.paid_us = LONG_AGO_US
        """When nobody could ask for it last, or could again for the first time; and when it was paid for last."""
        self.left: Seen | None = None
        """What was left in it at `at_us`, as the store itself said."""
        self.at_us = 0
        self.charge: Charge | None = None
        """What the store is asked for, or was asked for without an answer."""
        self.busy = False
        """Whether somebody is asking: what others ask after that is decided after that."""
        self.short = False
        """Whether there was too little in the bucket, when it was paid for last."""
        self.asked_us = self.named_us = 0
        """When it was asked for last, and under this name for the first time."""

    @property
    def is_paid(self) -> bool:
        return not self.spent and not self.firm and self.left is None and self.charge is None

    def spend(self, cost: int, share: Limit, used: float, now_us: int) -> None:
        """The local share has admitted it. `used` is what was used of this part before the first time."""
        if self.share is None:
            self.used, self.used_us = used, now_us
        self.share = share
        self._grow_back(now_us)
        self.used += cost
        self.spent += cost

    def take_owed(self, now_us: int) -> int:
        """What is owed for all that; it is asked for from now on."""
        firm, spent, self.firm, self.spent = self.firm, self.spent, 0, 0
        if not spent:
            return firm
        self._grow_back(now_us)
        return firm + owed(spent, self.used - self.paid)

    def charged(self, tokens: int, now_us: int) -> None:
        """The store has charged so much of what it was asked for, and there was no more. It stays used, until it has
        grown back; the rest stays owed."""
        assert self.charge is not None
        self._grow_back(now_us)
        self.paid = min(self.used, self.paid + tokens)
        self.short = tokens < self.charge.op.cost
        self.firm += max(0, self.charge.op.cost - tokens)
        if self.charge.most is not None and self.at_us <= self.asked_us:
            self.left = None
        self.charge, self.busy, self.paid_us = None, False, now_us

    def _grow_back(self, now_us: int) -> None:
        if self.share is not None:
            us = now_us - self.used_us
            self.used, self.paid = (used_after(each, us, self.share, 0) for each in (self.used, self.paid))
            self.used_us = now_us

    def most_left(self, now_us: int) -> int | None:
        """What can be in it by now at most, in the unit of what is seen; None when nobody knows."""
        if self.left is None:
            return None
        limit = self.op.limit
        most = limit.later(self.left, now_us - self.at_us, limit.capacity, limit.capacity)
        return most if most is None or isinstance(most, int) else int(most[0])
