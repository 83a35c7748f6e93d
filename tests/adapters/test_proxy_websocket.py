"""WebSockets through the proxy: messages, subprotocols, close codes, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import websockets
from websockets.typing import Subprotocol

from limen.adapters.proxy import ReverseProxy

Serve = Callable[..., Awaitable[str]]
Until = Callable[[Callable[[], object]], Awaitable[None]]


class Upstream:
    """Echoes; `close CODE` closes, a path of /refused is refused."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []
        self.closed: list[tuple[int, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        self.scopes.append(scope)
        await receive()
        if scope["path"] == "/refused":
            await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b"who are you"})
            return
        wanted = scope["subprotocols"]
        await send({"type": "websocket.accept", "subprotocol": wanted[-1] if wanted else None})
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            if text and text.startswith("close "):
                await send({"type": "websocket.close", "code": int(text[6:]), "reason": "as you wish"})
            else:
                await send(
                    {"type": "websocket.send", **{name: message[name] for name in ("text", "bytes") if name in message}}
                )
        self.closed.append((message["code"], message.get("reason", "")))


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
async def url(serve: Serve, upstream: Upstream) -> str:
    return (await serve(ReverseProxy(await serve(upstream)), lifespan="on")).replace("http", "ws")


async def test_messages_pass_both_ways(url: str, upstream: Upstream) -> None:
    async with websockets.connect(f"{url}/a?b=c", origin=websockets.Origin("https://app.example")) as socket:
        for message in ("text", b"bytes", "ü" * 1000, b"x" * 1_000_000, ""):
            await socket.send(message)
            assert await socket.recv() == message
    scope = upstream.scopes[0]
    headers = dict(scope["headers"])
    assert (scope["raw_path"], scope["query_string"]) == (b"/a", b"b=c")
    assert headers[b"origin"] == b"https://app.example"
    assert headers[b"x-forwarded-for"] == b"127.0.0.1"
    assert headers[b"x-forwarded-proto"] == b"http"


async def test_the_upstream_chooses_the_subprotocol(url: str, upstream: Upstream) -> None:
    async with websockets.connect(url, subprotocols=[Subprotocol("v1"), Subprotocol("v2")]) as socket:
        assert socket.subprotocol == "v2"
    assert upstream.scopes[0]["subprotocols"] == ["v1", "v2"]


async def test_close_codes_pass_to_the_client(url: str) -> None:
    async with websockets.connect(url) as socket:
        await socket.send("close 4321")
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4321, "as you wish")


async def test_close_codes_pass_to_the_upstream(url: str, upstream: Upstream, until: Until) -> None:
    async with websockets.connect(url) as socket:
        await socket.close(4000, "enough")
    await until(lambda: upstream.closed)
    assert upstream.closed == [(4000, "enough")]


async def test_a_client_that_vanishes_ends_the_upstream_side(url: str, upstream: Upstream, until: Until) -> None:
    socket = await websockets.connect(url)
    await socket.send("text")
    await socket.recv()
    socket.transport.abort()
    await socket.wait_closed()
    await until(lambda: upstream.closed)


async def test_a_refusal_keeps_its_status(url: str) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(f"{url}/refused")
    assert refused.value.response.status_code == 401


async def test_an_upstream_that_is_not_there_is_502(serve: Serve) -> None:
    url = await serve(ReverseProxy("http://127.0.0.1:1"), lifespan="on")
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(url.replace("http", "ws"))
    assert refused.value.response.status_code == 502


async def test_an_upstream_that_crashes_closes_the_client(serve: Serve) -> None:
    class Crashing:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.accept"})
                await receive()
                raise asyncio.CancelledError

    url = await serve(ReverseProxy(await serve(Crashing())), lifespan="on")
    async with websockets.connect(url.replace("http", "ws")) as socket:
        await socket.send("text")
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code in (1001, 1011)
