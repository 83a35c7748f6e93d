"""One direction of a connection: bytes come, wait as the weather has it, and go on in their order."""

from __future__ import annotations

import asyncio

from limen.testing.proxy.frames import Frames
from limen.testing.proxy.weather import Counts, Weather

__all__ = ["Pipe", "Replies"]

CHUNK = 65_536
WAITING = 256
"""Pieces that may wait in a pipe before it stops to read, as a network does."""
DRIPS_PER_S = 20


class Pipe:
    """Carries what a client sends, until it hangs up."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, weather: Weather, counts: Counts
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._weather = weather
        self._counts = counts
        self._pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING)
        self._due = 0.0

    async def run(self) -> None:
        """Until the end of the stream has been passed on.

        Raises:
            ExceptionGroup: of OSErrors, when a side is gone.
        """
        async with asyncio.TaskGroup() as both:
            both.create_task(self._read())
            both.create_task(self._write())

    async def _read(self) -> None:
        while data := await self._reader.read(CHUNK):
            for piece in self._cut(data):
                await self._pieces.put((self._moment(piece), piece))
        await self._pieces.put((self._due, b""))

    async def _write(self) -> None:
        while True:
            due, piece = await self._pieces.get()
            await self._weather.wait_until(due)
            if not piece:
                return self._writer.write_eof()
            self._count(piece)
            self._writer.write(piece)
            await self._writer.drain()

    def _moment(self, piece: bytes) -> float:
        """When a piece may go on: never before the one ahead of it."""
        now = asyncio.get_running_loop().time()
        self._due = max(self._due, now + self._weather.lost_s() + self._late_s()) + self._takes_s(piece)
        return self._due

    def _late_s(self) -> float:
        return 0.0

    def _takes_s(self, piece: bytes) -> float:
        return 0.0

    def _cut(self, data: bytes) -> list[bytes]:
        return [data]

    def _count(self, piece: bytes) -> None:
        self._counts.bytes_in += len(piece)


class Replies(Pipe):
    """Carries what the target answers."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, weather: Weather, counts: Counts
    ) -> None:
        super().__init__(reader, writer, weather, counts)
        self._frames = Frames()
        self._first: bytes | None = None
        """A reply that waits for the one that it lets go ahead."""

    def release(self) -> None:
        """Let go on what waits for another reply, unless that comes at once anyway."""
        if self._first is not None and not self._pieces.full():
            self._pieces.put_nowait((self._due, self._first))
            self._first = None

    def _late_s(self) -> float:
        return self._weather.late_s()

    def _takes_s(self, piece: bytes) -> float:
        return len(piece) / self._weather.bytes_per_s if self._weather.bytes_per_s else 0.0

    def _cut(self, data: bytes) -> list[bytes]:
        replies = self._frames.feed(data)
        if self._frames.is_resp:
            replies = [passed for reply in replies for passed in self._meddle(reply)]
        joined = b"".join(replies)
        size = max(1, int(self._weather.bytes_per_s / DRIPS_PER_S)) if self._weather.bytes_per_s else len(joined)
        return [joined[at : at + size] for at in range(0, len(joined), size or 1)]

    def _meddle(self, reply: bytes) -> list[bytes]:
        """What goes on in the place of a reply."""
        weather, counts = self._weather, self._counts
        if weather.to_drop:
            weather.to_drop -= 1
            counts.dropped += 1
            return []
        counts.replies += 1
        if self._first is not None:
            passed, self._first = [reply, self._first], None
            counts.swapped += 1
            return passed
        if weather.to_swap:
            weather.to_swap -= 1
            self._first = reply
            return []
        return [reply]

    def _count(self, piece: bytes) -> None:
        self._counts.bytes_out += len(piece)
