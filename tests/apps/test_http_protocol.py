"""Bounds and one reading for every request, over real sockets, in a server of this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from limen.apps import http_protocol
from limen.apps import serving as serving_module
from limen.apps.listening import bound
from limen.apps.serving import Stop, serving
from limen.apps.settings import Listen
from limen.errors import SettingsError

HEAD = b"HTTP/1.1 200"
LAST = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class Recorder:
    """An ASGI app that answers each request with its path when its body is there; `/early` at once."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.broken = 0
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._chat(receive, send)
            return
        self.seen.append(scope)
        if scope["path"] == "/held":
            await self.go_on.wait()
        if scope["path"] != "/early" and not await self._read(receive):
            return
        body = scope["path"].encode()
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _chat(self, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            await send({"type": "websocket.send", "text": "hi"})

    async def _read(self, receive: Any) -> bool:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.broken += 1
                return False
            body += message["body"]
            more = message["more_body"]
        self.bodies.append(body)
        return True

    @property
    def paths(self) -> list[str]:
        return [scope["path"] for scope in self.seen]


class Line:
    """A connection of our own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> bytes:
        """One response: its head and its body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return head + await self.reader.readexactly(int(length.partition(b":")[2]))

    async def rest(self) -> bytes:
        """Everything until the server hangs up."""
        return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@pytest.fixture
async def app() -> Recorder:
    return Recorder()


@pytest.fixture
async def connect(app: Recorder) -> AsyncIterator[Any]:
    listener = bound(Listen(port=0))
    lines: list[Line] = []

    async def open_line() -> Line:
        line = Line(*await asyncio.open_connection(*listener.getsockname()))
        lines.append(line)
        return line

    with listener:
        async with serving(Stop(), (app, Listen(port=0), listener)):
            yield open_line
            app.go_on.set()
            for line in lines:
                await line.close()


async def test_a_head_of_a_megabyte_is_431_and_the_end(connect: Any, app: Recorder) -> None:
    line = await connect()
    line.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Big: " + b"x" * 1_000_000 + b"\r\n\r\n")
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")
    assert app.seen == []


async def test_a_head_of_many_lines_is_431(connect: Any, app: Recorder) -> None:
    line = await connect()
    line.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x: y\r\n" * 200_000)
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")
    assert app.seen == []


async def test_a_long_target_and_blank_lines_without_end_are_431(connect: Any) -> None:
    for endless in (b"GET /" + b"a" * 200_000, b"\r\n" * 100_000):
        line = await connect()
        line.send(endless)
        assert (await line.rest()).startswith(b"HTTP/1.1 431 ")


async def test_a_large_head_within_the_bound_passes(connect: Any) -> None:
    line = await connect()
    line.send(b"GET /a HTTP/1.1\r\nHost: a\r\nX-Big: " + b"x" * 60_000 + b"\r\n\r\n")
    assert (await line.answer()).startswith(HEAD)


async def test_the_second_request_of_a_connection_is_bounded_too(connect: Any, app: Recorder) -> None:
    line = await connect()
    line.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await line.answer()).startswith(HEAD)
    line.send(b"GET /b HTTP/1.1\r\nHost: a\r\nX-Big: " + b"x" * 200_000 + b"\r\n\r\n")
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")
    assert app.paths == ["/a"]


@pytest.mark.parametrize("split", [0, 30])
async def test_a_large_body_right_behind_its_head_is_no_large_head(connect: Any, app: Recorder, split: int) -> None:
    line = await connect()
    request = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000
    line.send(request[:split])
    await line.writer.drain()
    for _ in range(5):
        await asyncio.sleep(0)  # the server reads the first part
    line.send(request[split:])
    assert (await line.answer()).startswith(HEAD)
    assert app.bodies == [b"x" * 1_000_000]


async def test_requests_in_one_go_are_answered_in_order(connect: Any, app: Recorder) -> None:
    line = await connect()
    line.send(
        b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n" + LAST
    )
    answers = await line.rest()
    assert [answers.index(path) for path in (b"/a", b"/b", b"/last")] == sorted(
        answers.index(path) for path in (b"/a", b"/b", b"/last")
    )
    assert app.bodies == [b"abc", b"", b""]


async def test_a_million_bytes_of_small_chunks_pass(connect: Any, app: Recorder) -> None:
    line = await connect()
    line.send(
        b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"
    )
    assert (await line.answer()).startswith(HEAD)
    assert app.bodies == [b"x" * 100_000]


@pytest.mark.parametrize("endless", [b"1;" + b"e" * 300_000, b"0\r\nX-Trailer: " + b"t" * 300_000])
async def test_framing_without_end_within_a_body_is_refused(connect: Any, app: Recorder, endless: bytes) -> None:
    line = await connect()
    line.send(b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + endless)
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")
    assert app.bodies == []


async def test_trailers_never_become_headers(connect: Any, app: Recorder) -> None:
    line = await connect()
    chunked = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-API-Key: k\r\n\r\n"
    line.send(chunked)
    assert (await line.answer()).startswith(HEAD)
    assert app.bodies == [b"abc"]
    assert [name for name, _ in app.seen[0]["headers"]] == [b"host", b"transfer-encoding"]


async def test_a_head_that_does_not_end_is_408_on_the_first_request_and_on_the_next(
    connect: Any, app: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.2)
    line = await connect()
    line.send(b"GET / HTTP/1.1\r\nHost")
    assert (await line.rest()).startswith(b"HTTP/1.1 408 ")
    line = await connect()
    line.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await line.answer()).startswith(HEAD)
    line.send(b"GET / HTTP/1.1\r\nHost")
    assert (await line.rest()).startswith(b"HTTP/1.1 408 ")


async def test_who_says_nothing_is_left(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.1)
    assert await (await connect()).rest() == b""


async def test_waiting_for_an_answer_is_not_slowness(
    connect: Any, app: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.1)
    line, other = await connect(), await connect()
    line.send(b"POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
    assert await other.rest() == b""  # that long has passed
    app.go_on.set()
    assert (await line.answer()).startswith(HEAD)


async def test_a_body_that_is_answered_early_may_end_and_the_connection_goes_on(connect: Any, app: Recorder) -> None:
    line = await connect()
    line.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n")
    assert (await line.answer()).startswith(HEAD)
    line.send(b"x" * 300_000 + b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await line.answer()).endswith(b"/b")
    assert app.paths == ["/early", "/b"]


async def test_the_rest_of_an_answered_body_does_not_hold_the_connection(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "LEFTOVER_SECONDS", 0.1)
    line = await connect()
    line.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\nx")
    assert (await line.answer()).startswith(HEAD)
    line.send(b"x")
    assert await line.rest() == b""


@pytest.fixture
def brief_keep_alive(monkeypatch: pytest.MonkeyPatch) -> float:
    """How many seconds a connection may rest between two requests, in this test."""
    configure = serving_module._config

    def configured(app: Any, listen: Listen) -> Any:
        config = configure(app, listen)
        config.timeout_keep_alive = 0.1  # type: ignore[assignment]
        return config

    monkeypatch.setattr(serving_module, "_config", configured)
    return 0.1


async def test_a_connection_that_rests_after_a_late_body_is_closed(brief_keep_alive: float, connect: Any) -> None:
    line = await connect()
    line.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
    assert (await line.answer()).startswith(HEAD)
    line.send(b"abc")
    assert await line.rest() == b""


async def test_a_websocket_may_rest_longer_than_a_connection_between_requests(
    brief_keep_alive: float, connect: Any
) -> None:
    line, other = await connect(), await connect()
    line.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await line.answer()).startswith(HEAD)
    line.send(
        b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert (await line.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    other.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await other.rest()).startswith(HEAD)  # and closed: that long has passed
    line.send(b"\x81\x81\x00\x00\x00\x00x")
    assert await line.reader.readexactly(4) == b"\x81\x02hi"


async def test_an_answer_that_is_due_comes_before_the_end(connect: Any, app: Recorder, until: Any) -> None:
    line = await connect()
    line.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
    await until(lambda: app.seen)
    line.send(b"garbage\r\n\r\n")
    await asyncio.sleep(0)
    app.go_on.set()
    answers = await line.rest()
    assert answers.count(b"HTTP/1.1") == 1
    assert answers.startswith(HEAD)


async def test_a_body_with_broken_framing_is_400_and_the_app_is_told(connect: Any, app: Recorder, until: Any) -> None:
    line = await connect()
    line.send(b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    await until(lambda: app.seen)
    line.send(b"zz\r\n")
    assert (await line.rest()).startswith(b"HTTP/1.1 400 ")
    await until(lambda: app.broken)


@pytest.mark.parametrize("together", [True, False])
async def test_an_upgrade_that_is_not_offered_is_overlooked_and_the_body_stays_a_body(
    connect: Any, app: Recorder, until: Any, together: bool
) -> None:
    line = await connect()
    body = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    line.send(
        b"POST /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: x\r\nContent-Length: %d\r\n\r\n" % len(body) + (body if together else b"")
    )
    if not together:
        await until(lambda: app.seen)
        line.send(body)
    assert (await line.answer()).endswith(b"/a")
    line.send(b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await line.answer()).endswith(b"/b")
    assert app.paths == ["/a", "/b"]
    assert app.bodies == [body, b""]


UNCLEAR = {
    "both lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked, then a length": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "the same length twice": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc",
    "a signed length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
    "a length in hex": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc",
    "a huge length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\nabc",
    "another coding": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "two codings": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked is not last": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "chunked in disguise": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "space before the colon": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc",
    "space before the name": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "obs-fold": b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n",
    "bare LF in the head": b"GET / HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n",
    "only LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare CR in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rc\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\x00c\r\n\r\n",
    "NUL in a name": b"GET / HTTP/1.1\r\nHost: a\r\nX\x00A: b\r\n\r\n",
    "a line without a colon": b"GET / HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n",
    "an empty name": b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
    "a method in lower case": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no such method": b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
    "CONNECT to a path": b"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "version 2 in words": b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "version 1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "another host in the target": b"GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "a user in the target": b"GET http://u@a/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target without Host": b"GET http://a/x HTTP/1.1\r\n\r\n",
    "no target": b"GET  HTTP/1.1\r\nHost: a\r\n\r\n",
    "a chunk size in disguise": (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"
    ),
    "a chunk without its end": (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"
    ),
    "TLS on a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


async def test_S26_what_can_be_read_in_two_ways_is_400_and_the_end(connect: Any, app: Recorder) -> None:
    answers: dict[str, list[str]] = {}
    for name, request in UNCLEAR.items():
        line = await connect()
        line.send(request + LAST)
        answers[name] = [each.decode() for each in (await line.rest()).split(b"\r\n") if b"HTTP/1.1 " in each]
    assert answers == {name: ["HTTP/1.1 400 Bad Request"] for name in UNCLEAR}
    assert app.bodies == []
    assert "/last" not in app.paths


async def test_an_absolute_target_of_the_same_host_is_the_path(connect: Any, app: Recorder) -> None:
    line = await connect()
    line.send(b"GET http://A:81/x?y HTTP/1.1\r\nHost: a:81\r\n\r\n")
    assert (await line.answer()).endswith(b"/x")


async def test_half_a_request_and_gone_harms_nobody(connect: Any, app: Recorder) -> None:
    for beginning in (b"", b"GET", b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"):
        line = await connect()
        line.send(beginning)
        line.writer.transport.abort()
    line = await connect()
    line.send(LAST)
    assert (await line.rest()).startswith(HEAD)


def test_a_port_that_is_taken_is_a_sentence() -> None:
    with bound(Listen(port=0)) as taken, pytest.raises(SettingsError, match="taken"):
        bound(Listen(port=taken.getsockname()[1]))


def test_an_address_that_is_not_ours_is_a_sentence() -> None:
    with pytest.raises(SettingsError, match=r"192\.0\.2\.1"):
        bound(Listen(host="192.0.2.1", port=0))
