"""Servers that misbehave as a test wishes, on real sockets."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import hiredis
import pytest

Answer = Callable[[list[bytes]], Any]


class RespServer:
    """A server that lets everybody log in and answers decisions with what `answer` gives: bytes, or None for silence.

    Replies to one connection leave in the order of its questions, as with a real server.
    """

    def __init__(self) -> None:
        self.answer: Answer = lambda words: b":0\r\n"
        self.pong = b"+PONG\r\n"
        """What a probe is answered."""
        self.loaded = b"$2\r\nok\r\n"
        """What the script is answered."""
        self.loads = 0
        self.connections = 0
        self.questions = 0
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        commands = hiredis.Reader()
        try:
            while data := await reader.read(65_536):
                commands.feed(data)
                while (words := commands.gets()) is not False:
                    reply = await self._reply(words)
                    if reply is not None:
                        writer.write(reply)
        except OSError:
            pass  # the other side hung up in the middle of it, as it may
        finally:
            self._open.discard(writer)
            writer.close()

    async def _reply(self, words: list[bytes]) -> bytes | None:
        name = words[0].upper()
        if name in (b"CLIENT", b"SELECT", b"AUTH"):
            return b"+OK\r\n"
        if name == b"PING":
            return self.pong
        if name == b"SCRIPT":
            self.loads += 1
            return self.loaded
        if name == b"ROLE":
            return b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
        self.questions += 1
        found = self.answer(words)
        return await found if inspect.isawaitable(found) else found

    def hang_up(self) -> None:
        """Cut every connection."""
        for writer in self._open:
            writer.transport.abort()


@pytest.fixture
async def resp_server() -> AsyncIterator[RespServer]:
    server = RespServer()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server
        while server._open:
            server.hang_up()
            await asyncio.sleep(0.001)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[int]]]:
    """`await serve(handler)`: a raw TCP server; gives its port."""
    async with AsyncExitStack() as stack:

        async def start(handler: Callable[..., Awaitable[None]]) -> int:
            server = await stack.enter_async_context(await asyncio.start_server(handler, "127.0.0.1", 0))
            return int(server.sockets[0].getsockname()[1])

        yield start
