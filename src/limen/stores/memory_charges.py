"""Charges in this process: which were made already, and what a charge takes from a bucket."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from limen.core.algorithm import Seen
from limen.core.limit import Limit
from limen.stores.base import Op

__all__ = ["MadeCharges", "amount_of", "drained", "unit_of"]

MEMORY_US = 600_000_000
MOST_REMEMBERED = 100_000


class MadeCharges:
    """The charges that were made within the last ten minutes; of the latest, when there are very many."""

    def __init__(self) -> None:
        self._made: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        """By name: until when it is remembered, and how many tokens were taken."""

    def taken(self, name: Hashable, now_us: int) -> int | None:
        """How many tokens were taken under a name; None when it was not charged."""
        until_us, tokens = self._made.get(name, (0, 0))
        return tokens if until_us > now_us else None

    def make(self, name: Hashable, tokens: int, now_us: int) -> None:
        """So many are taken under this name."""
        while self._made and (len(self._made) >= MOST_REMEMBERED or self._oldest_us() <= now_us):
            self._made.popitem(last=False)
        self._made.pop(name, None)
        self._made[name] = now_us + MEMORY_US, tokens

    def clear(self) -> None:
        self._made.clear()

    def _oldest_us(self) -> int:
        return next(iter(self._made.values()))[0]


def unit_of(op: Op) -> int:
    """What one token is in what is seen first: ticks of a token bucket, else 1."""
    return op.limit.token_ticks if type(op.limit) is Limit else 1


def amount_of(seen: Seen) -> int:
    """What is there, in that unit."""
    amount: int = seen if type(seen) is int else seen[0]
    return amount


def drained(amount: int, own: int, granted: int, unit: int) -> tuple[int, int]:
    """What goes from a bucket, and how many granted tokens: as in a take, and at last the fraction of a token."""
    first = min(amount, own - own % unit)
    tokens = min(-(-(amount - first) // unit), granted)
    return min(own, amount - tokens * unit), tokens
