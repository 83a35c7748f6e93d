"""What a gateway refuses or takes out before anything else looks at a request.

Rules, the limiter and the upstream must see the same request. So what they could read in different ways is
answered with 400: a path that servers resolve differently, no Host or several, a Connection header that asks for
the removal of who the client is. And what only pretends to come from us is taken out: header names with `_`, which
many servers read as an alias of `-`, and `X-Limen-*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from limen.adapters.asgi_types import App, Receive, Scope, Send, refuse
from limen.adapters.identity import header_values
from limen.adapters.problem import Reply, problem
from limen.rules.path import is_ambiguous

__all__ = ["EdgeChecks"]

HOST = re.compile(r"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
SAFE_TARGET = re.compile(rb"[!-~]*")
PROTECTED = frozenset(
    {"authorization", "cookie", "host", "content-length", "content-type", "forwarded", "x-real-ip"}
    | {"x-forwarded-" + name for name in ("for", "proto", "host", "port", "prefix")}
)
"""Fields that Connection must not name: they say who the client is and what it asks for."""


class EdgeChecks:
    """An ASGI app that lets only unambiguous requests through to `app`.

    Args:
        app: the limiter, with the upstream behind it.
        identity_headers: further fields that name the client, such as `X-API-Key`.
    """

    def __init__(self, app: App, identity_headers: Iterable[str] = ("X-API-Key",)) -> None:
        self.app = app
        self._protected = PROTECTED | {name.lower() for name in identity_headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self.app({**scope, "headers": _cleaned(scope["headers"])}, receive, send)
        else:
            await refuse(scope, receive, send, refusal)

    def _refusal(self, scope: Scope) -> Reply | None:
        if scope.get("method") == "CONNECT":
            return problem(405, "This gateway opens no tunnels.", headers=[("allow", "GET, HEAD, POST, PUT, DELETE")])
        return _bad_target(scope) or _bad_host(scope) or self._bad_connection(scope)

    def _bad_connection(self, scope: Scope) -> Reply | None:
        named = {name.strip().lower() for line in header_values(scope, b"connection") for name in line.split(",")}
        if named & self._protected:
            return problem(400, "The Connection header names a field that must reach the server; leave that out.")
        return None


def _bad_target(scope: Scope) -> Reply | None:
    raw_path, query = scope["raw_path"], scope.get("query_string", b"")
    if not raw_path.startswith(b"/"):
        return problem(400, "The path must begin with '/'.")
    if not SAFE_TARGET.fullmatch(raw_path) or not SAFE_TARGET.fullmatch(query):
        return problem(400, "The target has characters that must be percent-encoded.")
    if is_ambiguous(raw_path.decode("ascii")):
        return problem(
            400, "The path can be read in several ways; send no encoded slashes, dots or control characters."
        )
    return None


def _bad_host(scope: Scope) -> Reply | None:
    hosts = header_values(scope, b"host")
    if not hosts and scope.get("http_version") == "1.0":
        return None
    if len(hosts) != 1:
        return problem(400, f"A request has one Host header; this one has {len(hosts)}.")
    return None if HOST.fullmatch(hosts[0]) else problem(400, "The Host header is not a host and port.")


def _cleaned(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [header for header in headers if b"_" not in header[0] and not header[0].startswith(b"x-limen-")]
