"""When the mark on a server is looked at: before the server decides again, soon after that, and now and then."""

from __future__ import annotations

import asyncio
import contextlib

from limen.errors import StoreError
from limen.stores.valkey.link import Link
from limen.stores.valkey.memory_loss import FIRST_LOOK_S, LOOK_S, Marker
from limen.stores.valkey.waiting import about

__all__ = ["MarkLooks"]


class MarkLooks:
    """Looks at the mark of one server.

    Args:
        marker: sees whether the server has lost its memory; None where nobody wants to know.
        loop: whose time it is.
    """

    def __init__(self, marker: Marker | None, loop: asyncio.AbstractEventLoop) -> None:
        self._marker = marker
        self._loop = loop
        self._next_at = 0.0

    def connected(self) -> None:
        """There is a new connection."""
        if self._marker is not None:
            self._marker.connected()

    def look_soon(self) -> None:
        """What the server keeps has changed."""
        self._next_at = 0.0

    async def look(self, link: Link, shard: str, patience_s: float | None = None) -> None:
        """See whether the server has lost its memory since it was known. Before it decides again nothing else is asked.

        Raises:
            StoreError: it is silent.
        """
        if self._marker is not None:
            for each in self._marker.looks(shard):
                self._marker.found(shard, each, await link.ask(each.command, patience_s, urgent=True))
        self._next_at = self._loop.time() + about(FIRST_LOOK_S)

    async def look_again(self, link: Link, shard: str) -> None:
        """The same when it is time; a server that is silent is looked at later."""
        if self._loop.time() > self._next_at:
            with contextlib.suppress(StoreError):
                await self.look(link, shard)
            self._next_at = self._loop.time() + about(LOOK_S)
