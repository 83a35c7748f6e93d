"""Leases on buckets in this process."""

from __future__ import annotations

from collections import OrderedDict

from limen.core.loans import Claim, Loan, Loans, Settled, settle
from limen.stores.memory_cells import Key

__all__ = ["MemoryLoans"]

LOOKED_AT_PER_CLAIM = 2


class MemoryLoans:
    """Who holds what of each bucket. Not safe for threads: its store holds a lock.

    Loans that were never given back are forgotten bit by bit: each claim looks at the two buckets that were lent from
    least recently.
    """

    def __init__(self) -> None:
        self._loans: OrderedDict[Key, Loans] = OrderedDict()

    def __len__(self) -> int:
        return len(self._loans)

    def settle(self, key: Key, claim: Claim, now_us: int) -> Settled:
        """What may be lent of a bucket; nothing is written yet."""
        self._tidy(now_us)
        return settle(self._loans.get(key, {}), claim, now_us)

    def write(self, key: Key, settled: Settled, claim: Claim, tokens: int, now_us: int) -> None:
        """Note what a gateway holds now: what it kept, and `tokens` more."""
        loans, held = dict(settled.others), settled.kept + tokens
        if held:
            loans[claim.holder] = Loan(claim.number, held, now_us + claim.ttl_us)
        self._loans.pop(key, None)
        if loans:
            self._loans[key] = loans

    def clear(self) -> None:
        self._loans.clear()

    def _tidy(self, now_us: int) -> None:
        for _ in range(min(LOOKED_AT_PER_CLAIM, len(self._loans))):
            key, loans = self._loans.popitem(last=False)
            if max(loan.until_us for loan in loans.values()) > now_us:
                self._loans[key] = loans
