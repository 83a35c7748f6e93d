"""What flows through a gateway process flows: pieces, uploads and messages, while they come and as they are."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

Until = Callable[..., Awaitable[None]]
PIECE = b"x" * 100_000


class Api:
    """An upstream that streams both ways, at the pace of the test."""

    def __init__(self) -> None:
        self.received = 0
        self.go_on = asyncio.Event()
        self.open_sockets = 0
        app = web.Application(client_max_size=0)
        app.router.add_get("/stream", self.stream)
        app.router.add_put("/upload", self.upload)
        app.router.add_get("/ws", self.chat)
        app.router.add_get("/break", self.broken)
        self.server = TestServer(app)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await self.go_on.wait()
        await response.write(b"second")
        return response

    async def upload(self, request: web.Request) -> web.Response:
        async for piece in request.content.iter_any():
            self.received += len(piece)
        return web.Response(text=str(self.received))

    async def chat(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("chat",))
        await socket.prepare(request)
        self.open_sockets += 1
        async for message in socket:
            if message.data == "bye":
                await socket.close(code=4001, message=b"as you wish")
            elif message.type is aiohttp.WSMsgType.TEXT:
                await socket.send_str(message.data + "!")
            else:
                await socket.send_bytes(message.data)
        self.open_sockets -= 1
        return socket

    async def broken(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response


class Way(NamedTuple):
    """A client, and a gateway on the way to the API."""

    http: aiohttp.ClientSession
    gateway: Any
    api: Api
    errors: Path

    @property
    def url(self) -> str:
        return str(self.gateway.url)


@pytest.fixture
async def way(limen: Callable[..., Any], tmp_path: Path) -> AsyncIterator[Way]:
    api = Api()
    async with api.server, aiohttp.ClientSession() as http:
        shared = ("--store", "memory://", "--rules-db", f"sqlite:///{tmp_path / 'rules.db'}")
        gateway = limen("gateway", "--upstream", str(api.server.make_url("")), *shared, ready="gateway on")
        yield Way(http, gateway, api, tmp_path / f"stderr-{gateway.port}.txt")
        api.go_on.set()


async def test_a_piece_is_with_the_client_before_the_next_is_sent(way: Way) -> None:
    async with way.http.get(way.url + "/stream") as response:
        assert await response.content.readany() == b"first"
        way.api.go_on.set()
        assert await response.read() == b"second"


async def test_an_upload_is_with_the_upstream_before_it_is_complete(way: Way, until: Until) -> None:
    reached = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield PIECE
        await reached.wait()
        for _ in range(190):
            yield PIECE

    request = asyncio.create_task(way.http.put(way.url + "/upload", data=pieces()))
    await until(lambda: way.api.received >= 9 * len(PIECE))
    reached.set()
    async with await request as response:
        assert await response.text() == str(200 * len(PIECE))


async def test_a_large_upload_is_not_kept_in_the_gateway(way: Way) -> None:
    before = memory_kib(way.gateway.process.pid)
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            yield PIECE
            sent += len(PIECE)

    async with way.http.put(way.url + "/upload", data=pieces()) as response:
        assert await response.text() == str(sent) == str(1000 * len(PIECE))
    assert memory_kib(way.gateway.process.pid) - before < 30_000, "of a hundred megabytes"


def memory_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


async def test_websocket_messages_codes_and_subprotocols_pass(way: Way) -> None:
    async with way.http.ws_connect(way.url + "/ws", protocols=("other", "chat")) as socket:
        assert socket.protocol == "chat"
        await socket.send_str("hello")
        assert await socket.receive_str() == "hello!"
        await socket.send_bytes(PIECE)
        assert await socket.receive_bytes() == PIECE
        await socket.send_str("bye")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 4001


async def test_a_websocket_that_comes_on_a_kept_connection_stays_open(way: Way) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", way.gateway.port)
    writer.write(b"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await reader.readuntil(b"404: Not Found")).startswith(b"HTTP/1.1 404")
    writer.write(
        b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    writer.write(b"\x81\x82\x00\x00\x00\x00hi")
    assert await reader.readexactly(5) == b"\x81\x03hi!"
    writer.transport.abort()


async def test_a_client_that_leaves_a_websocket_takes_the_upstream_with_it(way: Way, until: Until) -> None:
    async with way.http.ws_connect(way.url + "/ws"):
        await until(lambda: way.api.open_sockets == 1)
    await until(lambda: way.api.open_sockets == 0)


async def test_an_upstream_that_breaks_off_or_is_gone_is_told_and_survived(way: Way) -> None:
    with pytest.raises(aiohttp.ClientPayloadError):
        async with way.http.get(way.url + "/break") as response:
            await response.read()
    await way.api.server.close()
    for _ in range(3):
        async with way.http.get(way.url + "/stream") as response:
            assert (response.status, response.content_type) == (502, "application/problem+json")
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await way.http.ws_connect(way.url + "/ws")
    assert refused.value.status == 502
    assert "Traceback" not in way.errors.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_to_stop_it_ends_streams_and_sockets_in_order(
    way: Way, until: Until, number: signal.Signals
) -> None:
    async with way.http.get(way.url + "/stream") as response, way.http.ws_connect(way.url + "/ws") as socket:
        assert await response.content.readany() == b"first"
        await until(lambda: way.api.open_sockets == 1)
        way.gateway.process.send_signal(number)
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1012, "the service restarts: come back"
        way.api.go_on.set()
        assert await response.read() == b"second"
    assert await asyncio.to_thread(way.gateway.process.wait, 20) == 0
    assert "Traceback" not in way.errors.read_text()
