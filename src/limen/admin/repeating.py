"""Doing something again and again, at intervals that vary, until it is told to stop."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from typing import Self

__all__ = ["Repeating"]


class Repeating(ABC):
    """A task of its own. Subclasses say what is done, and how long it rests.

    Args:
        jitter: intervals vary by this share, so that a fleet that was started together does not ask together.
    """

    def __init__(self, jitter: float) -> None:
        self._jitter = jitter
        self._poked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def once(self) -> None:
        """Do it once. Must not raise."""

    @abstractmethod
    def pause_s(self) -> float:
        """Seconds until the next time, on average."""

    def start(self) -> None:
        """Begin. Needs a running event loop; returns before anything is done."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=type(self).__name__)

    async def stop(self) -> None:
        """End, in the middle of it too."""
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
        """Do it at once: somebody knows that there is something new."""
        self._poked.set()

    async def _run(self) -> None:
        while True:
            self._poked.clear()
            await self.once()
            await self._rest()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self.pause_s() * random.uniform(1 - self._jitter, 1 + self._jitter)):
                await self._poked.wait()
        except TimeoutError:
            return
