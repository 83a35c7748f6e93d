"""ASGI as types, and what every ASGI app of ours does: answer, refuse, live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from limen.adapters.problem import Reply

__all__ = ["App", "Message", "Receive", "Scope", "Send", "live", "refuse", "refuse_handshake", "send_reply"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def send_reply(send: Send, reply: Reply, kind: str = "http") -> None:
    """Send a whole response. `kind` is `websocket.http` to refuse a handshake."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
    await send({"type": f"{kind}.response.start", "status": reply.status, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": reply.body})


async def refuse(scope: Scope, receive: Receive, send: Send, reply: Reply) -> None:
    """Answer a request with `reply`, or refuse a handshake before it is accepted."""
    if scope["type"] == "websocket":
        await receive()
        await refuse_handshake(scope, send, reply)
    else:
        await send_reply(send, reply)


async def refuse_handshake(scope: Scope, send: Send, reply: Reply) -> None:
    """Refuse a handshake that was received: with `reply` where the server can, else by closing with 1008."""
    if "websocket.http.response" in (scope.get("extensions") or ()):
        await send_reply(send, reply, "websocket.http")
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": "refused"})


async def live(
    receive: Receive, send: Send, start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]]
) -> None:
    """Serve a lifespan scope. A start that fails ends the server with its message."""
    await receive()
    try:
        await start()
    except Exception as error:
        await send({"type": "lifespan.startup.failed", "message": str(error)})
        raise
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await stop()
    await send({"type": "lifespan.shutdown.complete"})
