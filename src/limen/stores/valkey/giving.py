"""What is done for requests that are over: giving back what they took in vain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from time import monotonic
from typing import Any

from limen.errors import StoreError

__all__ = ["Givings"]

log = logging.getLogger("limen.store")

MOST_AT_A_TIME = 10_000
"""How many are on their way at most; more than these are given up, for a store that does not answer them."""
LOG_PAUSE_S = 60.0


class Givings:
    """Keeps tasks alive until they are done, and counts those that failed."""

    def __init__(self) -> None:
        self.given = 0
        """How often something was given back."""
        self.lost = 0
        """How often it may not have been: a client was charged for a request that was denied, or not decided."""
        self.on_their_way = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._logged_at = float("-inf")

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a task whose outcome others look at, if they are still there."""
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def give(self, giving: Coroutine[Any, Any, None]) -> None:
        """Give something back. Nobody waits for it."""
        if self.on_their_way >= MOST_AT_A_TIME:
            giving.close()
            self._lose(StoreError(f"{MOST_AT_A_TIME} such tasks wait already", "overload"))
        else:
            self.keep(asyncio.create_task(self._given(giving)))

    async def finish(self, patience_s: float) -> None:
        """Wait a moment for what is on its way, then give it up."""
        here = asyncio.get_running_loop()
        tasks = {task for task in self._tasks if task.get_loop() is here}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=patience_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _given(self, giving: Coroutine[Any, Any, None]) -> None:
        self.on_their_way += 1
        try:
            await giving
            self.given += 1
        except StoreError as error:
            self._lose(error)
        finally:
            self.on_their_way -= 1

    def _lose(self, error: StoreError) -> None:
        self.lost += 1
        if monotonic() - self._logged_at >= LOG_PAUSE_S:
            self._logged_at = monotonic()
            log.warning("tokens of an undecided or denied request may not have been given back: %s", error)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked has seen it, or is gone
