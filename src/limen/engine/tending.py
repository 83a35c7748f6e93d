"""What a limiter for coroutines does beside its decisions: it shows that it is alive, and pays what it owes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence
from typing import cast
from uuid import uuid4

from limen.engine.debt import Debt
from limen.engine.debts import Debts
from limen.engine.fleet import Fleet
from limen.engine.local_shares import LocalShares
from limen.errors import StoreError
from limen.stores.base import AsyncSharedStore, AsyncStore

__all__ = ["Tending"]

BEAT_S = 2.0
"""How often a gateway says that it is alive; one that was silent for ten seconds is not."""
PAY_S = 0.1
PAID_AT_ONCE = 32
"""At most so many debts, so often: a fleet that returns pays together, and the store has other work."""
TIDIED_AT_ONCE = 1000


class Tending:
    """Two tasks, for as long as the limiter is open.

    Args:
        store: the counter store.
        debts: what is owed to it.
        shares: what is left of them after an outage is dropped bit by bit.
        fleet: is told how many gateways there are.
    """

    def __init__(self, store: AsyncStore, debts: Debts, shares: LocalShares, fleet: Fleet) -> None:
        self._store = cast("AsyncSharedStore", store)
        self._debts = debts
        self._shares = shares
        self._fleet = fleet
        self._name = uuid4().hex
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, on the running event loop."""
        if not self._tasks:
            if hasattr(self._store, "beat"):
                self._tasks.append(asyncio.create_task(self._beat_on(), name="limen heartbeat"))
            if hasattr(self._store, "charge"):
                self._tasks.append(asyncio.create_task(self._pay_on(), name="limen settlement"))

    async def stop(self) -> None:
        """End, pay what can be paid at once, and say goodbye."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
            if hasattr(self._store, "leave") and self._store.state == "up":
                await _quietly(self._store.leave(self._name))

    async def settle(self, debt: Debt) -> None:
        """Pay a debt.

        Raises:
            StoreError: nobody knows whether it is paid; it is owed still.
        """
        assert debt.charge is not None
        try:
            charged = await self._store.charge(debt.charge)
        except BaseException:
            self._debts.failed(debt)
            raise
        self._debts.settled(debt, charged.tokens)

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S * random.uniform(0.75, 1.25))
            if self._store.state == "up":
                await _quietly(self._beat())

    async def _beat(self) -> None:
        self._fleet.heard(*await self._store.beat(self._name))

    async def _pay_on(self) -> None:
        while True:
            await asyncio.sleep(PAY_S * random.uniform(0.5, 1.5))
            if self._debts.entries and self._store.state == "up":
                await self._pay(self._debts.oldest(PAID_AT_ONCE))
            if len(self._shares):
                self._shares.tidy(TIDIED_AT_ONCE)

    async def _pay(self, debts: Sequence[Debt]) -> None:
        await asyncio.gather(*(_quietly(self.settle(debt)) for debt in debts))


async def _quietly(question: Awaitable[None]) -> None:
    """Ask a store that may be away: whoever decides finds that out, and says so."""
    try:
        await question
    except StoreError:
        return
