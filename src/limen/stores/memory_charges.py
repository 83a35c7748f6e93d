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
    """The names of charges that were made within the last ten minutes; of the latest, when there are very many."""

    def __init__(self) -> None:
        self._until_us: OrderedDict[Hashable, int] = OrderedDict()

    def first(self, name: Hashable, now_us: int) -> bool:
        """Whether it is made for the first time."""
        if self._until_us.get(name, 0) > now_us:
            return False
        while self._until_us and (len(self._until_us) >= MOST_REMEMBERED or self._oldest_us() <= now_us):
            self._until_us.popitem(last=False)
        self._until_us.pop(name, None)
        self._until_us[name] = now_us + MEMORY_US
        return True

    def clear(self) -> None:
        self._until_us.clear()

    def _oldest_us(self) -> int:
        return next(iter(self._until_us.values()))


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
