"""A request, as rules see it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["Request"]

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Request(NamedTuple):
    """The attributes that rules can match on and count by.

    Example: `Request(method="GET", path="/v1/search", client="acme", plan="free", ip="192.0.2.7")`.
    """

    method: str = "GET"
    path: str = "/"
    """As it was sent, percent-encoding included; a query or fragment is ignored."""
    host: str = ""
    client: str | None = None
    """The verified client, or None: rules keyed by client then count against `ip`."""
    plan: str | None = None
    user: str | None = None
    ip: str | None = None
    """The address that the request really came from, in any spelling."""
    headers: Mapping[str, str] = NO_HEADERS
    """Names in lower case."""
