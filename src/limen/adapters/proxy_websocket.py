"""A WebSocket on both sides of a proxy: messages and close codes pass through it, pings end in it."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import aiohttp
from yarl import URL

from limen.adapters.asgi_types import Receive, Scope, Send, refuse_handshake
from limen.adapters.problem import Reply, problem

__all__ = ["bridge"]

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
NORMAL, GOING_AWAY, INTERNAL_ERROR = 1000, 1001, 1011
NO_STATUS, ABNORMAL = 1005, 1006
Upstream = aiohttp.ClientWebSocketResponse


class Ending(NamedTuple):
    """How one side ended the conversation."""

    by_client: bool
    code: int | None
    reason: str = ""


async def bridge(
    session: aiohttp.ClientSession, url: URL, headers: list[tuple[str, str]], client: tuple[Scope, Receive, Send]
) -> None:
    """Connect to the upstream, accept the client with the subprotocol that was agreed there, and pass messages."""
    scope, receive, send = client
    await receive()
    kept = [(name, value) for name, value in headers if not name.startswith("sec-websocket-")]
    protocols = scope.get("subprotocols", ())
    try:
        upstream = await session.ws_connect(url, protocols=protocols, headers=kept, max_msg_size=MAX_MESSAGE_BYTES)
    except (aiohttp.ClientError, TimeoutError) as error:
        await refuse_handshake(scope, send, _failure(error))
        return
    try:
        await send({"type": "websocket.accept", "subprotocol": upstream.protocol})
        ending = await _first_ending(upstream, receive, send)
        if ending.by_client:
            await upstream.close(code=_sendable(ending.code), message=ending.reason.encode()[:123])
        else:
            await send({"type": "websocket.close", "code": _sendable(ending.code), "reason": ending.reason})
    finally:
        await upstream.close()


async def _first_ending(upstream: Upstream, receive: Receive, send: Send) -> Ending:
    ways = [asyncio.create_task(_to_upstream(receive, upstream)), asyncio.create_task(_to_client(upstream, send))]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _to_upstream(receive: Receive, upstream: Upstream) -> Ending:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return Ending(True, message.get("code"), message.get("reason") or "")
        text = message.get("text")
        try:
            if text is not None:
                await upstream.send_str(text)
            else:
                await upstream.send_bytes(message["bytes"])
        except (aiohttp.ClientError, OSError):
            return Ending(False, INTERNAL_ERROR)


async def _to_client(upstream: Upstream, send: Send) -> Ending:
    while True:
        message = await upstream.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            event = {"type": "websocket.send", "text": message.data}
        elif message.type is aiohttp.WSMsgType.BINARY:
            event = {"type": "websocket.send", "bytes": message.data}
        else:
            return Ending(False, upstream.close_code, message.extra if isinstance(message.extra, str) else "")
        try:
            await send(event)
        except OSError:
            return Ending(True, ABNORMAL)


def _sendable(code: int | None) -> int:
    """A code that a close frame may carry (RFC 6455 section 7.4): some stand for having had none."""
    if not code or code == NO_STATUS:
        return NORMAL
    if code == ABNORMAL:
        return GOING_AWAY
    return code if code in (1000, 1001, 1002, 1003) or 1007 <= code <= 1014 or 3000 <= code <= 4999 else INTERNAL_ERROR


def _failure(error: Exception) -> Reply:
    if isinstance(error, aiohttp.WSServerHandshakeError) and 400 <= error.status < 600:
        return problem(error.status, "The server behind this gateway refused the WebSocket.")
    if isinstance(error, TimeoutError):
        return problem(504, "The server behind this gateway did not answer in time.")
    return problem(502, "The server behind this gateway cannot be reached.")
