"""From an ASGI scope to what rules see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

from limen.adapters.asgi_types import Scope
from limen.adapters.identity import NOBODY, Identity, header_values
from limen.rules.request import Request

__all__ = ["has_origin", "is_preflight", "request_from_scope"]


def request_from_scope(scope: Scope, identity: Identity = NOBODY, ip: str | None = None) -> Request:
    """The request that rules see, from an ASGI scope. A WebSocket handshake is a GET."""
    hosts = header_values(scope, b"host")
    raw_path = scope.get("raw_path")
    return Request(
        method=scope.get("method", "GET"),
        path=raw_path.decode("latin-1") if raw_path else quote(scope["path"]),
        host=hosts[0] if hosts else "",
        client=identity.client,
        plan=identity.plan,
        user=identity.user,
        ip=ip,
        headers=_LazyHeaders(scope),
    )


class _LazyHeaders(Mapping[str, str]):
    """The headers of a scope by name in lower case, decoded only when a rule asks. Repeated lines are joined."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __getitem__(self, name: str) -> str:
        values = header_values(self._scope, name.encode("latin-1"))
        if not values:
            raise KeyError(name)
        return ", ".join(values)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.decode("latin-1") for name, _ in self._scope["headers"]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks, on behalf of a page, if it may send the real request (Fetch, CORS-preflight)."""
    if scope["type"] != "http" or scope["method"] != "OPTIONS" or not has_origin(scope):
        return False
    return bool(header_values(scope, b"access-control-request-method"))


def has_origin(scope: Scope) -> bool:
    """Whether a page of some origin sends the request."""
    return any(name == b"origin" for name, _ in scope["headers"])
