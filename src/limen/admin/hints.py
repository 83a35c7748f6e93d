"""Hears at once that something changed, where the rules database can tell. A hint only: who misses it looks anyway.

Each change says NOTIFY in its transaction, so a hint comes when the change can be seen and never before. PostgreSQL
keeps none for those who are not connected: whoever has just connected looks, for something may have been missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

from limen.admin.drivers import CHANNEL, connect_postgres, is_postgres
from limen.admin.repeating import Repeating

__all__ = ["Hints", "hints_for"]

JITTER = 0.5
RETRY_S = 2.0
PING_S = 15.0
PING_TIMEOUT_S = 2.0
SPREAD_S = 0.25
"""A fleet that hears a hint at one moment does not ask at one moment."""


class Hints(Repeating):
    """One connection that listens. Whatever becomes of it, it is made again after a while, and nobody is troubled.

    Args:
        url: of a PostgreSQL rules database.
        on_hint: somebody should look; must not raise.

    Attributes:
        listening: whether it would hear a hint now.
    """

    def __init__(self, url: str, on_hint: Callable[[], None]) -> None:
        super().__init__(JITTER)
        self._url = url
        self._on_hint = on_hint
        self._heard = asyncio.Event()
        self.listening = False

    async def once(self) -> None:
        connection: Any = None
        try:
            connection = await connect_postgres(self._url, PING_TIMEOUT_S)
            await self._listen(connection)
        except Exception:  # noqa: BLE001 - looks at the database say what is wrong with it; this is only quicker
            return
        finally:
            self.listening = False
            if connection is not None:
                connection.terminate()

    def pause_s(self) -> float:
        return RETRY_S

    async def _listen(self, connection: Any) -> None:
        lost = asyncio.Event()

        def end(_: object) -> None:
            lost.set()
            self._heard.set()

        connection.add_termination_listener(end)
        await connection.add_listener(CHANNEL, lambda *_: self._heard.set())
        self.listening = True
        self._heard.set()
        while not lost.is_set():
            if await self._hint():
                await asyncio.sleep(random.uniform(0, SPREAD_S))
                self._heard.clear()
                self._on_hint()
            else:
                await connection.execute("SELECT 1")  # a connection may be cut off without anybody being told

    async def _hint(self) -> bool:
        """Wait for one, so long that it is time to see whether the connection still stands."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PING_S):
                return await self._heard.wait()
        return False


def hints_for(url: str, on_hint: Callable[[], None]) -> Hints | None:
    """None for a database that tells nobody."""
    return Hints(url, on_hint) if is_postgres(url) else None
