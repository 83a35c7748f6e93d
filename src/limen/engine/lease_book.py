"""The leases that this gateway holds, as far as the store is asked about them.

Whoever gets leases to ask about (`borrowing.py`) asks for the `question` of each, and says how that went: `answered` or
`failed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import urandom
from threading import Lock

from limen.core.loans import Claim
from limen.engine.deny_cache import DenyCache, Key
from limen.engine.fleet import Fleet
from limen.engine.lease import Lease
from limen.engine.recent import Recent
from limen.stores.base import Borrow, Lent
from limen.stores.fork import begin_anew_after_fork

__all__ = ["FAR", "LeaseBook"]

HOLDER_BYTES = 8
FAR = 2**62


class LeaseBook:
    """What is held. Threads may share it.

    Args:
        now_us: the local clock.
        fleet: how many gateways there are.
        recent: is told what was borrowed: the store has charged it.
        denied: forgets a refusal when something was given back to that bucket.
    """

    def __init__(self, now_us: Callable[[], int], fleet: Fleet, recent: Recent, denied: DenyCache) -> None:
        self.held: dict[Key, Lease] = {}
        self.due_us = FAR
        """When a lease has to be looked at though nobody asks."""
        self.borrowed = self.spent = self.returned = 0
        """Tokens since the start."""
        self.holder = urandom(HOLDER_BYTES)
        """By this name the store knows this gateway."""
        self._now_us, self._fleet, self._recent, self._denied = now_us, fleet, recent, denied
        self._number = 0
        self._lock = Lock()
        begin_anew_after_fork(self)

    def __len__(self) -> int:
        """On how many buckets there is a lease."""
        return len(self.held)

    @property
    def left(self) -> int:
        """Whole tokens that are held and not spent."""
        now_us = self._now_us()
        with self._lock:
            return sum(lease.left for lease in self.held.values() if now_us < lease.until_us)

    def doubt(self, concerned: Callable[[str, str], bool]) -> None:
        """Spend nothing of what a server may have forgotten to have lent."""
        with self._lock:
            for lease in self.held.values():
                if concerned(lease.op.identity, lease.op.colocate):
                    lease.left = 0

    def question(self, lease: Lease) -> Borrow | None:
        """What to ask the store about a lease; None when there is nothing to ask any more."""
        with self._lock:
            self._number += 1
            now_us = self._now_us()
            wish = 0 if lease.gone else lease.wish(self._fleet.size, now_us)
            left, back = lease.put_down(now_us)
            if lease.gone and not back:
                return None
            most = lease.terms.most(lease.limit.capacity)
            claim = Claim(self.holder, self._number, left, back, most, lease.terms.ttl_us)
            return Borrow(lease.op._replace(cost=max(0, wish - left)), claim)

    def answered(self, lease: Lease, borrow: Borrow, lent: Lent) -> bool:
        """The store has answered; whether it has to be asked once more, for the lease is not wanted any more."""
        op, limit, claim = borrow.op, lease.limit, borrow.claim
        with self._lock:
            again = lease.take_up(borrow, lent, self._now_us())
            self.due_us = min(self.due_us, lease.due_us)
            self.borrowed += lent.tokens
            self.returned += claim.back
        before = limit.raised(lent.seen, lent.tokens)
        self._recent.note(op._replace(limit=limit, cost=lent.tokens), before, lease.asked_us)
        if claim.back:
            self._denied.drop((op.identity, op.rule))  # there is more in it than was known
        return again

    def failed(self, lease: Lease) -> None:
        """The store did not answer: what it may have lent runs out unspent."""
        with self._lock:
            lease.fail(self._now_us())
            self.due_us = min(self.due_us, lease.due_us)

    def begin_after_fork(self) -> None:
        """In a child process: what is held is the parent's to spend."""
        self._lock = Lock()
        self.held = {}
        self.holder = urandom(HOLDER_BYTES)

    def _give_back(self, keys: Iterable[Key]) -> list[Lease]:
        """Hold these no more. One that is being asked about is given back when its answer is there."""
        leases = [self.held.pop(key) for key in keys]
        return [lease for lease in leases if lease.give_up()]
