"""Servers that misbehave as a test wishes, on real sockets."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import hiredis
import pytest

from tests.faults.fleet.firewall import Firewall
from tests.faults.fleet.gateway import hurry
from tests.faults.fleet.row import Row
from tests.topologies.servers import Cluster, Server

Answer = Callable[[list[bytes]], Any]
BESIDES = (b"alive", b"leave", b"marks")
"""What is asked for no client."""


PASSED = pytest.StashKey[bool]()
FLEETS = ("test_rows_", "test_late_answers")
"""Files whose tests run a fleet of processes."""
LONG_S = 900


class Length(NamedTuple):
    """How long a fault lasts: the short form runs by default, the long one with `-m long`."""

    name: str

    @property
    def family(self) -> str:
        """The newest server or the oldest that is good enough."""
        return str(self.pick("valkey", "redis"))

    def pick(self, short: Any, long: Any) -> Any:
        return short if self.name == "short" else long


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Either the short forms or, with `-m long` or LIMEN_LONG, the long ones."""
    other = "short" if "long" in config.option.markexpr or os.environ.get("LIMEN_LONG") else "long"
    left_out = [item for item in items if _length_of(item) == other]
    items[:] = [item for item in items if _length_of(item) != other]
    config.hook.pytest_deselected(items=left_out)
    for item in items:
        if item.path.name.startswith(FLEETS):
            item.add_marker(pytest.mark.fleet)


def _length_of(item: pytest.Item) -> str:
    """`short` or `long` for the rows; empty for a test that has one form."""
    asked = getattr(item, "callspec", None)
    return str(asked.params.get("length", "")) if asked else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture(params=["short", pytest.param("long", marks=[pytest.mark.long, pytest.mark.timeout(LONG_S)])])
def length(request: pytest.FixtureRequest) -> Length:
    return Length(request.param)


@pytest.fixture
def row(request: pytest.FixtureRequest, length: Length) -> Iterator[Row]:
    """What `test_F01_…` writes down for the documentation."""
    _, number, *fault = request.node.originalname.split("_")
    row = Row(f"F{int(number[1:])}", " ".join(fault), length.name)
    yield row
    if PASSED in request.node.stash:
        row.write(request.node.stash[PASSED])


@pytest.fixture
def cluster(length: Length, tmp_path: Path) -> Iterator[Cluster]:
    """Three primaries and three replicas, in step, to be broken."""
    cluster = Cluster(length.family, tmp_path / "cluster", replicas=1)
    for server in cluster.servers:
        hurry(server.pid)
    yield cluster
    cluster.stop()


@pytest.fixture
def server(length: Length, tmp_path: Path) -> Iterator[Server]:
    """One server, to be broken."""
    server = Server(
        length.family, tmp_path / "server", "--enable-debug-command", "local", "--busy-reply-threshold", "200"
    )
    hurry(server.pid)
    yield server
    server.stop()


@pytest.fixture
def wall() -> Iterator[Firewall]:
    with Firewall() as wall:
        yield wall


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
            return b"$%d\r\n%b\r\n" % (len(words[1]), words[1]) if words[1:] and self.pong[:1] == b"+" else self.pong
        if name == b"SCRIPT":
            self.loads += 1
            return self.loaded
        if name == b"ROLE":
            return b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
        if name == b"EVALSHA" and b"charge" in words[4:6]:
            return b"*2\r\n:1\r\n:0\r\n"
        if name == b"EVALSHA" and words[4] in BESIDES:
            return b":0\r\n"
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
