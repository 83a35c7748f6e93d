"""The fault proxy, before a server that answers PING n with n, and before a real one."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import hiredis
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from limen import AsyncLimiter, Rule, UsageError
from limen.testing import FaultProxy
from limen.testing.proxy.frames import Frames
from limen.testing.proxy.weather import Weather

Until = Callable[[Callable[[], object]], Awaitable[None]]
RULES = [Rule("r", limit="1000/day")]
REPLIES = [
    b"+OK\r\n", b"-ERR no\r\n", b":-7\r\n", b"$-1\r\n", b"$0\r\n\r\n", b"$5\r\na\r\nb\n\r\n", b"*0\r\n", b"*-1\r\n",
    b"*2\r\n:1\r\n*2\r\n+a\r\n$1\r\n*\r\n", b"%1\r\n+a\r\n*1\r\n:1\r\n", b"~1\r\n,1.5\r\n", b"_\r\n", b"#t\r\n",
    b"=7\r\ntxt:a\r\n\r\n", b"(123\r\n", b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n", b">2\r\n+message\r\n+hi\r\n",
    b"!3\r\nERR\r\n",
]  # fmt: skip


class Numbers:
    """Answers each line, a number, with that number as a RESP reply."""

    def __init__(self) -> None:
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(b":%d\r\n" % int(line))
        writer.close()


@pytest.fixture
async def numbers() -> AsyncIterator[Numbers]:
    server = Numbers()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


@pytest.fixture
async def proxy(numbers: Numbers) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(("127.0.0.1", numbers.port), seed=7) as proxy:
        yield proxy


class Caller:
    """A client of the numbers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def ask(self, *numbers: int) -> None:
        self.writer.write(b"".join(b"%d\n" % number for number in numbers))

    async def answers(self, count: int) -> list[int]:
        return [int((await self.reader.readline())[1:]) for _ in range(count)]


@pytest.fixture
async def call(proxy: FaultProxy) -> AsyncIterator[Callable[[], Awaitable[Caller]]]:
    async with contextlib.AsyncExitStack() as stack:

        async def connect() -> Caller:
            caller = Caller(*await asyncio.open_connection(proxy.host, proxy.port))
            stack.callback(caller.writer.close)
            return caller

        yield connect


Call = Callable[[], Awaitable[Caller]]


async def silent_for(caller: Caller, seconds: float) -> bool:
    """Whether nothing comes, not even an end."""
    try:
        await asyncio.wait_for(caller.reader.read(1), seconds)
    except TimeoutError:
        return True
    return False


async def test_bytes_pass_unchanged_and_are_counted(proxy: FaultProxy, call: Call, until: Until) -> None:
    caller = await call()
    caller.ask(*range(1000))
    assert await caller.answers(1000) == list(range(1000))
    counts = proxy.counts
    assert (counts.connections, counts.open, counts.replies) == (1, 1, 1000)
    assert counts.bytes_in == sum(len(b"%d\n" % number) for number in range(1000))
    assert counts.bytes_out == sum(len(b":%d\r\n" % number) for number in range(1000))
    caller.writer.close()
    await until(lambda: counts.open == 0)


async def test_an_end_is_passed_on_behind_the_last_reply(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    caller.ask(1, 2)
    caller.writer.write_eof()
    assert await caller.reader.read() == b":1\r\n:2\r\n"


async def test_a_dropped_reply_leaves_the_others_in_order(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    proxy.drop_reply(2)
    caller.ask(1, 2, 3, 4)
    assert await caller.answers(2) == [3, 4]
    assert (proxy.counts.dropped, proxy.counts.replies) == (2, 2)


async def test_two_replies_change_places(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    proxy.reorder()
    caller.ask(1)
    assert await silent_for(caller, 0.02), "the first waits for the second"
    caller.ask(2, 3)
    assert await caller.answers(3) == [2, 1, 3]
    assert proxy.counts.swapped == 1


async def test_a_reply_that_waits_for_another_in_vain_goes_on_when_it_is_healed(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    proxy.reorder()
    caller.ask(1)
    assert await silent_for(caller, 0.02)
    proxy.heal()
    assert await caller.answers(1) == [1]
    caller.ask(2, 3)
    assert await caller.answers(2) == [2, 3]


async def test_delay_is_for_replies_keeps_the_order_and_does_not_add_up(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    proxy.delay(0.05, jitter=0.05)
    began = time.monotonic()
    for number in range(50):
        caller.ask(number)
        await asyncio.sleep(0)
    assert await caller.answers(50) == list(range(50))
    took = time.monotonic() - began
    assert took >= 0.05
    assert took < 50 * 0.05, "they are under way at the same time"


async def test_what_is_late_comes_at_once_when_it_is_healed(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    proxy.delay(3600)
    caller.ask(1)
    assert await silent_for(caller, 0.02)
    proxy.heal()
    assert await caller.answers(1) == [1]


async def test_a_black_hole_holds_everything_and_lets_nobody_in(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    proxy.black_hole()
    caller.ask(1)
    assert await silent_for(caller, 0.05)
    calling = asyncio.create_task(call())
    done, _ = await asyncio.wait([calling], timeout=0.1)
    assert not done, "no refusal and no welcome"
    proxy.heal()
    assert await caller.answers(1) == [1], "nothing is lost: TCP sends it again"
    late = await calling
    late.ask(2)
    assert await late.answers(1) == [2]


async def test_half_open_connections_are_silent_until_they_are_reset(proxy: FaultProxy, call: Call) -> None:
    before = await call()
    before.ask(1)
    assert await before.answers(1) == [1]
    proxy.half_open()
    after = await call()
    for caller in (before, after):
        caller.ask(2)
        assert await silent_for(caller, 0.05)
    proxy.heal()
    for caller in (before, after):
        with pytest.raises(ConnectionResetError):
            await caller.reader.read(1)
    again = await call()
    again.ask(3)
    assert await again.answers(1) == [3]


async def test_refused_is_refused_and_the_port_is_kept(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    proxy.refuse()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await call()
    caller.ask(1)
    assert await caller.answers(1) == [1]
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((proxy.host, proxy.port))
    proxy.heal()
    await call()


async def test_cut_resets_whoever_is_there(proxy: FaultProxy, call: Call, until: Until) -> None:
    callers = [await call() for _ in range(3)]
    await until(lambda: proxy.counts.open == 3)
    proxy.cut()
    for caller in callers:
        with pytest.raises(ConnectionResetError):
            await caller.reader.read(1)
    await call()


async def test_a_target_that_is_gone_resets_the_client(proxy: FaultProxy, call: Call, free_port: int) -> None:
    async with FaultProxy(f"127.0.0.1:{free_port}") as nobody:
        reader, writer = await asyncio.open_connection(nobody.host, nobody.port)
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()


async def test_replies_drip_at_their_pace(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    proxy.slow_drip(200)
    began = time.monotonic()
    caller.ask(*range(10, 20))
    first = await caller.reader.read(50)
    assert len(first) < 50, "in small pieces"
    rest = await caller.reader.readexactly(50 - len(first))
    assert time.monotonic() - began >= 0.2
    assert first + rest == b"".join(b":%d\r\n" % number for number in range(10, 20))


async def test_what_is_lost_comes_later_as_the_seed_says(proxy: FaultProxy, call: Call) -> None:
    caller = await call()
    drawn = Weather(seed=7)
    drawn.loss = 0.25
    late = [drawn.lost_s() + (drawn.lost_s() + drawn.late_s()) for _ in range(4)]
    assert 0.2 <= sum(late) < 2, "some are lost, with this seed"
    proxy.loss(25)
    for number, late_s in enumerate(late):
        began = time.monotonic()
        caller.ask(number)
        assert await caller.answers(1) == [number]
        assert time.monotonic() - began >= late_s


async def test_faults_can_be_set_from_any_thread(proxy: FaultProxy, call: Call) -> None:
    await asyncio.to_thread(proxy.refuse)
    with pytest.raises(ConnectionRefusedError):
        await call()
    await asyncio.to_thread(proxy.heal)
    await call()


def test_without_an_event_loop(valkey_url: str) -> None:
    with (
        FaultProxy.in_thread(valkey_url) as proxy,
        redis.Redis(port=proxy.port, socket_timeout=0.1, retry=None) as client,
    ):
        assert client.ping()
        proxy.drop_reply()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        proxy.refuse()
        proxy.cut()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        proxy.heal()
        assert client.ping()
    assert proxy.counts.dropped == 1


async def test_a_limiter_behind_it(valkey_url: str, until: Until) -> None:
    async with FaultProxy(valkey_url) as proxy, AsyncLimiter(proxy.url, RULES, deadline_ms=200) as limiter:
        assert (await limiter.check("acme", "r")).source == "store"
        proxy.black_hole()
        found = await limiter.check("acme", "r")
        assert (found.degraded, found.allowed) == (True, True)
        proxy.heal()
        await until(lambda: limiter.store_state == "up")


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("valkey://h:1/0", "valkey://127.0.0.1:9/0"),
        ("valkeys://user:p@ss/w:rd@h:1/3?tls_verify=none", "valkeys://user:p@ss/w:rd@127.0.0.1:9/3?tls_verify=none"),
        ("redis://[::1]:7", "redis://127.0.0.1:9"),
        ("h:1", "127.0.0.1:9"),
        (("h", 1), "127.0.0.1:9"),
        ("valkey://h", "valkey://127.0.0.1:9"),
    ],
)
def test_its_url_is_that_of_the_target_with_its_own_place(target: str | tuple[str, int], url: str) -> None:
    assert FaultProxy(target, port=9).url == url


@pytest.mark.parametrize("target", ["valkey+cluster://a:1,b:2", "memory://", "", "h:port"])
def test_a_target_that_is_not_one_place_is_refused(target: str) -> None:
    with pytest.raises(UsageError, match="not one place"):
        FaultProxy(target)


def test_a_fault_before_it_runs_is_refused() -> None:
    with pytest.raises(UsageError, match="does not run"):
        FaultProxy("h:1").cut()


@given(st.lists(st.sampled_from(REPLIES), max_size=12), st.lists(st.integers(1, 9), min_size=1))
def test_replies_are_told_apart_however_they_are_cut(replies: list[bytes], cuts: list[int]) -> None:
    frames, found, stream, at = Frames(), [], b"".join(replies), 0
    while at < len(stream):
        size = cuts[len(found) % len(cuts)]
        found += frames.feed(stream[at : at + size])
        at += size
    assert found == replies
    assert frames.is_resp


def test_a_reply_is_what_hiredis_takes_for_one() -> None:
    for reply in REPLIES:
        if reply[:1] not in b"|>!":  # attributes and pushes are no replies; "!" it does not know
            reader = hiredis.Reader(replyError=lambda text: text)
            reader.feed(reply)
            assert reader.gets() is not False
            assert not reader.has_data()


def test_a_long_reply_in_many_pieces_is_looked_at_once() -> None:
    """Not again from its beginning with each piece."""
    reply = b"*20000\r\n" + b":1\r\n" * 20_000
    times = []
    for size in (len(reply), 512):
        frames, began = Frames(), time.process_time()
        found = [each for at in range(0, len(reply), size) for each in frames.feed(reply[at : at + size])]
        times.append(time.process_time() - began)
        assert found == [reply]
    assert times[1] < 5 * times[0]


@given(st.binary(min_size=1).filter(lambda data: data[0] not in b"+-:_#,($!=*~>%|"))
def test_what_is_no_resp_passes_at_once(data: bytes) -> None:
    frames = Frames()
    assert b"".join(frames.feed(data)) == data
    assert not frames.is_resp


@pytest.mark.parametrize("data", [b"$?\r\n;1\r\na\r\n", b"*x\r\n", b"+OK\r\nHTTP/1.1 200 OK\r\n"])
def test_what_turns_out_to_be_no_resp_passes_too(data: bytes) -> None:
    frames = Frames()
    assert b"".join(frames.feed(data)) == data
