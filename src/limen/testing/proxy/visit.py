"""One connection through the proxy: the client's side, the target's side, and the two pipes between them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

from limen.testing.proxy.pipe import CHUNK, Pipe, Replies
from limen.testing.proxy.weather import Counts, Weather

__all__ = ["Visit"]

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: on, for 0 s. Closed like this a socket sends RST."""


class Visit:
    """A client that has come in."""

    def __init__(self, came: socket.socket, target: tuple[str, int], weather: Weather, counts: Counts) -> None:
        self._came = came
        self._target = target
        self._weather = weather
        self._counts = counts
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: asyncio.Task[None] | None = None
        self._replies: Replies | None = None
        self.dead = weather.dead
        """Whether it is never heard again; it can only be reset."""

    async def run(self) -> None:
        """Until both sides have hung up, or one of them has gone away."""
        self._counts.connections += 1
        self._counts.open += 1
        try:
            await self._live()
        except* OSError:
            self.reset()
        finally:
            self._counts.open -= 1
            await self._hang_up()

    async def _live(self) -> None:
        reader, writer = await asyncio.open_connection(sock=self._came)
        self._writers.append(writer)
        if not self.dead:
            self._serving = asyncio.create_task(self._serve(reader, writer))
            await asyncio.wait([self._serving])
        if self.dead:
            await _play_dead(reader, writer)
        elif self._serving and not self._serving.cancelled():
            self._serving.result()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(*self._target)
        self._writers.append(to_there)
        self._replies = Replies(there, writer, self._weather, self._counts)
        async with asyncio.TaskGroup() as both:
            both.create_task(Pipe(reader, to_there, self._weather, self._counts).run())
            both.create_task(self._replies.run())

    def die(self) -> None:
        """Take everything from now on and answer nothing."""
        self.dead = True
        self.end()

    def heal(self) -> None:
        """Go on, or be reset if that cannot be."""
        if self.dead:
            self.reset()
        elif self._replies:
            self._replies.release()

    def end(self) -> None:
        """Carry nothing any more."""
        if self._serving:
            self._serving.cancel()

    def reset(self) -> None:
        """Break it off on both sides, with RST."""
        for writer in self._writers:
            with contextlib.suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()

    async def _hang_up(self) -> None:
        self.end()
        for writer in self._writers:
            writer.close()
        if self._serving:
            await asyncio.gather(self._serving, return_exceptions=True)
        for writer in self._writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        self._came.close()


async def _play_dead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take everything and answer nothing, until it is reset."""
    while await reader.read(CHUNK):
        pass
    await writer.wait_closed()
