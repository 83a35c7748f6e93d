"""The client's side of a proxied request: its body, and whether it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from limen.adapters.asgi_types import Receive

__all__ = ["Incoming"]

END = b""


class Incoming:
    """Reads what the client sends while the block runs, one piece ahead of the upstream.

        async with Incoming(receive) as incoming:
            ... incoming.body() ...

    When the client hangs up, the block is cancelled and left quietly: there is nobody to answer any more.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._gone = False
        self._block: asyncio.Task[object] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._block = asyncio.current_task()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._watching is not None:
            self._watching.cancel()
        if not self._gone or kind is not asyncio.CancelledError or self._block is None:
            return False
        return self._block.uncancel() == 0

    async def body(self) -> AsyncIterator[bytes]:
        """The pieces of the request body, none empty."""
        while piece := await self._pieces.get():
            yield piece

    async def _watch(self) -> None:
        more = True
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone = True
                if self._block is not None:
                    self._block.cancel()
                return
            if more and message.get("body"):
                await self._pieces.put(message["body"])
            if more and not message.get("more_body"):
                more = False
                await self._pieces.put(END)
