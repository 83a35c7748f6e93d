"""Looking again and again whether something changed, and loading it when it did.

A state counts as loaded only after everything that loading means has succeeded. Whatever fails, the last good state
stays in force, the failure is reported, and the next look tries again.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from limen.admin.repeating import Repeating
from limen.errors import RulesUnavailable

__all__ = ["Poller", "ignore_look"]

Mark = TypeVar("Mark", bound=Hashable)

JITTER = 0.1
FIRST_INTERVAL_S = 1.0
"""The longest wait between looks while nothing has been loaded yet."""
STALE_LOOKS, STALE_S = 3, 5.0
"""What is in force may be old when no look has gone well for so many intervals and seconds."""


def ignore_look() -> None:
    """Nobody asks when the last look was."""


class Poller(Repeating, Generic[Mark]):
    """A task that keeps something loaded. Subclasses say how to look and how to load.

    Args:
        interval_s: seconds between two looks, on average.
        on_error: is told of every look or load that failed; must not raise.
        now: Unix time in seconds.
        on_look: is told after every look, whether it failed or not; must not raise.

    Attributes:
        last_error: what the latest look failed with; None when it went well.
        last_look: Unix time of the latest look that went well; None before the first.
        last_reload: Unix time of the latest successful load; None before the first.
    """

    def __init__(
        self,
        interval_s: float,
        on_error: Callable[[Exception], None],
        now: Callable[[], float] = time.time,
        on_look: Callable[[], None] = ignore_look,
    ) -> None:
        super().__init__(JITTER)
        self.interval_s = interval_s
        self._on_error = on_error
        self._on_look = on_look
        self._now = now
        self._mark: Mark | None = None
        self._loaded = asyncio.Event()
        self._loading = asyncio.Lock()
        self.last_error: Exception | None = None
        self.last_look: float | None = None
        self.last_reload: float | None = None

    @abstractmethod
    async def look(self) -> Mark:
        """What there is now: a value that differs from the last loaded one when there is something to load."""

    @abstractmethod
    async def load(self) -> Mark:
        """Load what there is now and hand it on. Returns what was loaded."""

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

    async def loaded(self) -> None:
        """Wait until something is loaded, as long as it takes."""
        await self._loaded.wait()

    @property
    def stale(self) -> bool:
        """Whether several looks in a row have failed, or none has gone well yet."""
        return self.last_look is None or self._now() - self.last_look > STALE_LOOKS * self.interval_s + STALE_S

    async def load_now(self) -> None:
        """Load what there is, without waiting for a look.

        Raises:
            LimenError: what went wrong; the last good state stays in force.
        """
        async with self._loading:  # an older state that is still being loaded must not come in after a newer one
            self._mark = await self.load()
            self.last_error = self.trouble()
            self.last_reload = self.last_look = self._now()
            self._loaded.set()

    async def once(self) -> None:
        """Look, and load when there is something new. A failure is reported, never raised."""
        try:
            if await self.look() != self._mark or self._mark is None:
                await self.load_now()
        except Exception as error:  # noqa: BLE001 - a gateway must not lose its watcher, whatever a row holds
            self.last_error = error
            self._on_error(error)
        else:
            self.last_error = self.trouble()
            self.last_look = self._now()
        self._on_look()

    def trouble(self) -> Exception | None:
        """What is wrong although the look went well."""
        return None

    def pause_s(self) -> float:
        return self.interval_s if self._loaded.is_set() else min(self.interval_s, FIRST_INTERVAL_S)
