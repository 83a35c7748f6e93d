"""The layer around the admin API: lets callers in or answers them, and says to browsers what not to do with answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from limen.admin.access import Access, Asked
from limen.admin.callers import Caller
from limen.admin.http_io import problem
from limen.admin.signing import CALLER

__all__ = ["OPENAPI", "AccessLayer"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPENAPI = "/openapi.json"
"""The only address that is for everybody: it says what this page says, and nothing of the deployment."""
SAFE = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}


class AccessLayer:
    """An ASGI app around another one. Whoever is let in is in the scope, under `CALLER`."""

    def __init__(self, app: App, access: Access) -> None:
        self.app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _safe(message.get("headers", ()))
            await send(message)

        if scope["type"] != "http" or scope["path"] == OPENAPI:
            await self.app(scope, receive, safely)
            return
        found = self._access.admit(_asked(scope))
        if isinstance(found, Caller):
            await self.app({**scope, CALLER: found}, receive, safely)
        else:
            await problem(found)(scope, receive, safely)


def _asked(scope: Scope) -> Asked:
    headers = scope["headers"]
    client = scope.get("client")

    def lines(name: str) -> list[str]:
        wanted = name.lower().encode()
        return [value.decode("latin-1") for field, value in headers if field.lower() == wanted]

    return Asked(scope["method"], client[0] if client else None, lines)


def _safe(headers: Any) -> list[tuple[bytes, bytes]]:
    """The fields of a response with those that keep browsers from guessing, framing and remembering."""
    found = {name.lower() for name, _ in headers}
    return [*headers, *((name, value) for name, value in SAFE.items() if name not in found)]
