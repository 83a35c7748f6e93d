"""Rules that nobody has looked after: a process that was stopped for a minute and goes on must not decide by them.

A callback of the event loop looks at the clock. When the process goes on, it runs before any task that a request could
be decided in: what arrived meanwhile is read in the same turn of the loop, and handled in the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["Freshness"]

LOOKS_MISSED = 3
SLACK_US = 5_000_000
TICK_S = 0.25
PATIENCE_S = 1.0


class Freshness:
    """Whether the rules are looked after.

    Args:
        now_us: the local clock.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.in_doubt = False
        """Whether whoever wants to decide should wait for `restored` first."""
        self._now_us = now_us
        self._refresh: Callable[[], Awaitable[None]] | None = None
        self._allowed_us = 0
        self._looked_us = 0
        self._tick: asyncio.TimerHandle | None = None
        self._restoring: asyncio.Task[None] | None = None

    def follow(self, refresh: Callable[[], Awaitable[None]], every_s: float) -> None:
        """Begin to watch, on the running event loop.

        Args:
            refresh: reads the rules anew, or reports why it cannot; does not raise.
            every_s: how often somebody looks.
        """
        self._refresh = refresh
        self._allowed_us = round(LOOKS_MISSED * every_s * 1_000_000) + SLACK_US
        self.looked()
        self._on_tick()

    def looked(self) -> None:
        """Somebody has looked."""
        self._looked_us = self._now_us()

    def stop(self) -> None:
        """Watch no more."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None

    async def restored(self) -> None:
        """Return when the rules were read anew, or a second later: the last ones are better than none."""
        if self._restoring is None:
            self._restoring = asyncio.create_task(self._restore(), name="limen rules after a stop")
        await asyncio.shield(self._restoring)

    async def _restore(self) -> None:
        assert self._refresh is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._refresh()
        except TimeoutError:
            pass  # whoever looks after the rules says so
        finally:
            self.in_doubt, self._restoring = False, None
            self.looked()

    def _on_tick(self) -> None:
        if self._now_us() - self._looked_us > self._allowed_us:
            self.in_doubt = True
        self._tick = asyncio.get_running_loop().call_later(TICK_S, self._on_tick)
