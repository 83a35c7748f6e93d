"""A slot for coroutines: renewed while it is held, and let go whatever happens to the task that holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from limen.core.decision import Decision
from limen.engine.local_slots import LocalSlots
from limen.engine.plan import SlotPlan
from limen.engine.slots import Holding
from limen.errors import StoreError
from limen.stores.base import AsyncStore

__all__ = ["AsyncSlot", "Departures"]

RENEWALS_PER_LEASE = 3
LONGEST_RELEASE_S = 1.0
"""The longest that a block waits for its end; a store that takes longer is still told."""


class Departures:
    """Slots on their way back. Each is told of in a task of its own, which nobody's cancellation reaches."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def see_off(self, release: Coroutine[Any, Any, None]) -> None:
        """Release a slot. Whoever waits for it may be cancelled, the release is not."""
        task = asyncio.create_task(release)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait((task,), timeout=LONGEST_RELEASE_S)
        if task.done():
            task.result()

    async def finish(self) -> None:
        """Wait a moment for those that are on their way."""
        here = asyncio.get_running_loop()
        tasks = [task for task in self._tasks if task.get_loop() is here]
        if tasks:
            await asyncio.wait(tasks, timeout=LONGEST_RELEASE_S)


class AsyncSlot(Holding):
    """A slot of a concurrency limit: `async with limiter.slot("acme", "exports") as slot:`.

    The block runs in any case; `slot.allowed` says whether there was a slot. While it runs, a task renews the slot
    three times a lease. A slot whose renewal failed for a whole lease, or that the store forgot, is `lost`: it is not
    asked for again, and the block is not stopped.
    """

    def __init__(
        self, plan: SlotPlan | Decision | None, local: LocalSlots, store: AsyncStore, departures: Departures
    ) -> None:
        super().__init__(plan, local)
        self._store = store
        self._departures = departures
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._begin():
            try:
                await self._ask()
            except BaseException:
                await self._leave()  # the store may have answered and not been heard
                raise
        if self._held:
            self._renewing = asyncio.create_task(self._renew_in_time())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def renew(self) -> bool:
        """Hold it for another lease from now, without waiting for the task that does so. False when it is not held."""
        asked_us = self._local.now_us()
        if self._held:
            try:
                self._renewed(await self._renew(), asked_us)
            except StoreError as error:
                self._local.unheard(error)
        return self.allowed and not self.lost

    async def _ask(self) -> None:
        try:
            seen = await self._store.acquire(self._slot)
        except StoreError as error:
            self._without_store(error)
        else:
            self._found(seen)

    async def _renew(self) -> bool:
        return await self._store.renew(self._slot) if self._part is None else self._local.kept.renew(self._part)

    async def _renew_in_time(self) -> None:
        pause_s = self._slot.limit.lease_us / 1_000_000 / RENEWALS_PER_LEASE
        while self._held:
            await asyncio.sleep(pause_s)
            await self.renew()

    async def _leave(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        if self._leaving():
            await self._departures.see_off(self._release())

    async def _release(self) -> None:
        try:
            self._released(await self._store.release(self._slot))
        except StoreError as error:
            self._local.unheard(error)
