"""What a limiter for code that blocks does beside its decisions. It has no task of its own: now and then a call does it
before its own question."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import cast
from uuid import uuid4

from limen.engine.debt import Debt
from limen.engine.debts import Debts
from limen.engine.fleet import Fleet
from limen.engine.local_shares import LocalShares
from limen.engine.tending import BEAT_S
from limen.errors import StoreError
from limen.stores.base import SharedStore, Store
from limen.stores.fork import begin_anew_after_fork

__all__ = ["BlockingTending"]

BEAT_US = round(BEAT_S * 1_000_000)
PAID_WITH_A_BEAT = 8
TIDIED_WITH_A_BEAT = 1000


class BlockingTending:
    """Heartbeats, and what is owed.

    Args:
        store: the counter store.
        debts: what is owed to it.
        shares: what is left of them after an outage is dropped bit by bit.
        fleet: is told how many gateways there are.
        now_us: the local clock.
    """

    def __init__(
        self, store: Store, debts: Debts, shares: LocalShares, fleet: Fleet, now_us: Callable[[], int]
    ) -> None:
        self._store = cast("SharedStore", store)
        self._debts = debts
        self._shares = shares
        self._fleet = fleet
        self._now_us = now_us
        self._name = uuid4().hex
        self._beats = hasattr(store, "beat")
        self._has_beaten = False
        self.beats_us: float = inf
        """When somebody should say that this process is alive: not in one that asks for a moment and ends."""
        self._begin()
        begin_anew_after_fork(self)

    def between(self, now_us: int, until_us: int) -> None:
        """Between two decisions: now and then, show that this process lives, and pay what is owed, as far as there is
        time for it."""
        if now_us >= self.beats_us:
            self.beats_us = now_us + BEAT_US
            _quietly(lambda: self._beat(until_us))
            self._shares.tidy(TIDIED_WITH_A_BEAT)

    def stop(self) -> None:
        """Say goodbye."""
        if self._has_beaten and self._store.state == "up":
            self._has_beaten = False
            _quietly(lambda: self._store.leave(self._name))

    def settle(self, debt: Debt) -> None:
        """Pay a debt.

        Raises:
            StoreError: nobody knows whether it is paid; it is owed still.
        """
        assert debt.charge is not None
        try:
            charged = self._store.charge(debt.charge)
        except BaseException:
            self._debts.failed(debt)
            raise
        self._debts.settled(debt, charged.tokens)

    def begin_after_fork(self) -> None:
        """A child is another gateway."""
        self._name, self._has_beaten = uuid4().hex, False
        self._begin()

    def _begin(self) -> None:
        if self._beats:
            self.beats_us = self._now_us() + BEAT_US

    def _beat(self, until_us: int) -> None:
        if self._store.state != "up":
            return
        self._fleet.heard(*self._store.beat(self._name))
        self._has_beaten = True
        for _ in range(PAID_WITH_A_BEAT):
            if self._now_us() < until_us:
                for debt in self._debts.oldest(1):
                    self.settle(debt)


def _quietly(question: Callable[[], None]) -> None:
    """Tell a store that may be away: whoever decides finds that out, and says so."""
    try:
        question()
    except StoreError:
        return
