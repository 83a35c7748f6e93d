"""Looking again and again whether something changed, and loading it when it did.

A state counts as loaded only after everything that loading means has succeeded. Whatever fails, the last good state
stays in force, the failure is reported, and the next look tries again.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Generic, Self, TypeVar

from limen.errors import RulesUnavailable

__all__ = ["Poller"]

Mark = TypeVar("Mark", bound=Hashable)

JITTER = 0.1
"""Intervals vary by this share, so that a fleet that was started together does not ask together."""
FIRST_INTERVAL_S = 1.0
"""The longest wait between looks while nothing has been loaded yet."""


class Poller(ABC, Generic[Mark]):
    """A task that keeps something loaded. Subclasses say how to look and how to load.

    Args:
        interval_s: seconds between two looks, on average.
        on_error: is told of every look or load that failed; must not raise.
        now: Unix time in seconds.

    Attributes:
        last_error: what the latest look failed with; None when it went well.
        last_reload: Unix time of the latest successful load; None before the first.
    """

    def __init__(
        self, interval_s: float, on_error: Callable[[Exception], None], now: Callable[[], float] = time.time
    ) -> None:
        self._interval_s = interval_s
        self._on_error = on_error
        self._now = now
        self._mark: Mark | None = None
        self._poked = asyncio.Event()
        self._loaded = asyncio.Event()
        self._loading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.last_error: Exception | None = None
        self.last_reload: float | None = None

    @abstractmethod
    async def look(self) -> Mark:
        """What there is now: a value that differs from the last loaded one when there is something to load."""

    @abstractmethod
    async def load(self) -> Mark:
        """Load what there is now and hand it on. Returns what was loaded."""

    def start(self) -> None:
        """Begin. Needs a running event loop; returns before anything is loaded."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=type(self).__name__)

    async def stop(self) -> None:
        """End, in the middle of a look too. What was loaded stays in force."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def poke(self) -> None:
        """Look at once: somebody knows that there is something new."""
        self._poked.set()

    async def first_load(self, timeout: float) -> None:
        """Wait until something is loaded.

        Raises:
            LimenError: nothing was within `timeout` seconds; it is the latest failure, if there was one.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._loaded.wait()
        except TimeoutError:
            raise self.last_error or RulesUnavailable(f"no rules were loaded within {timeout:g} s") from None

    async def load_now(self) -> None:
        """Load what there is, without waiting for a look.

        Raises:
            LimenError: what went wrong; the last good state stays in force.
        """
        async with self._loading:  # an older state that is still being loaded must not come in after a newer one
            self._mark = await self.load()
            self.last_reload = self._now()
            self._loaded.set()

    async def _run(self) -> None:
        while True:
            self._poked.clear()
            await self._look_once()
            await self._rest()

    async def _look_once(self) -> None:
        try:
            if await self.look() != self._mark or self._mark is None:
                await self.load_now()
        except Exception as error:  # noqa: BLE001 - a gateway must not lose its watcher, whatever a row holds
            self.last_error = error
            self._on_error(error)
        else:
            self.last_error = None

    async def _rest(self) -> None:
        interval_s = self._interval_s if self._loaded.is_set() else min(self._interval_s, FIRST_INTERVAL_S)
        try:
            async with asyncio.timeout(interval_s * random.uniform(1 - JITTER, 1 + JITTER)):
                await self._poked.wait()
        except TimeoutError:
            return
