"""Logs of one JSON object for each request: those of nginx and Envoy as people set them up, and plain ones.

There is no standard for the names, so each field has several; the first that a line has counts. A header is looked for
as `x-tier`, `x_tier` and `http_x_tier`, and in an object `headers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from limen.rules.request import NO_HEADERS, Request
from limen.sim.record import Parsed, Record, Wanted, target
from limen.sim.times import Times

__all__ = ["ENVOY", "JSON_LINES", "NGINX", "JsonLog", "Names"]

Names = Mapping[str, tuple[str, ...]]
"""Of a field: what it may be called."""

NGINX: Names = {
    "time": ("time_iso8601", "msec", "time_local", "@timestamp", "timestamp", "time"),
    "method": ("request_method", "method"),
    "path": ("request_uri", "uri", "path"),
    "line": ("request",),
    "host": ("http_host", "host", "server_name"),
    "client": ("remote_user", "client"),
    "user": ("remote_user", "user"),
    "plan": ("plan",),
    "ip": ("remote_addr", "client_ip"),
}
"""Variables of ngx_http_core_module and ngx_http_log_module."""

ENVOY: Names = {
    "time": ("start_time", "timestamp", "time"),
    "method": ("method", ":method"),
    "path": ("path", ":path", "x_envoy_original_path"),
    "line": (),
    "host": ("authority", ":authority", "host"),
    "client": ("client", "downstream_peer_subject"),
    "user": ("user",),
    "plan": ("plan",),
    "ip": ("downstream_remote_address", "downstream_remote_address_without_port", "downstream_direct_remote_address"),
}
"""As in the default JSON format of Istio. The address is the one that Envoy believes, not a header."""

JSON_LINES: Names = {
    "time": ("time", "timestamp", "@timestamp", "ts", "at"),
    "method": ("method", "http_method", "request_method"),
    "path": ("path", "uri", "url", "request_uri"),
    "line": ("request",),
    "host": ("host", "authority", "http_host"),
    "client": ("client", "client_id", "api_client"),
    "user": ("user", "user_id", "remote_user"),
    "plan": ("plan", "tier"),
    "ip": ("ip", "client_ip", "remote_addr", "remote_ip", "peer"),
}
"""The fields of `limen.Request`, and what others call them."""

NOTHING = (None, "", "-")


class JsonLog:
    """JSON objects, one a line.

    Args:
        name: of the format.
        names: what its fields are called.
        wanted: what is read.
    """

    fields = frozenset({"*"})

    def __init__(self, name: str, names: Names, wanted: Wanted = Wanted()) -> None:  # noqa: B008 - immutable
        self.name = name
        self._names = names
        self._named = wanted.keyed_by == "client"
        self._headers = tuple(wanted.headers)
        self._us = Times().us

    def parse(self, block: str) -> Parsed:
        parsed = Parsed([], [])
        read, records, unreadable = self._read, parsed.records, parsed.unreadable
        for line in block.split("\n"):
            if line and not line.isspace():
                try:
                    found = read(json.loads(line))
                except (ValueError, RecursionError):
                    found = None
                if found is None:
                    unreadable.append(line.rstrip("\r"))
                else:
                    records.append(found)
        return parsed

    def _read(self, line: Any) -> Record | None:
        if type(line) is not dict:
            return None
        names = self._names
        at_us = self._us(_text(_first(line, names["time"])) or "")
        method, path = _text(_first(line, names["method"])), _text(_first(line, names["path"]))
        if not method or not path:
            method, path = self._request_line(line, method, path)
        if at_us is None or not method or not path:
            return None
        host, path = ("", path) if path[0] == "/" else target(path)
        named = self._named
        return at_us, Request(
            method,
            path,
            _text(_first(line, names["host"])) or host,
            _text(_first(line, names["client"])) if named else None,
            _text(_first(line, names["plan"])),
            _text(_first(line, names["user"])) if named else None,
            _text(_first(line, names["ip"])),
            self._headers_of(line) if self._headers else NO_HEADERS,
        )

    def _request_line(self, line: Mapping[str, Any], method: str | None, path: str | None) -> tuple[str, str]:
        """Method and target of a field such as `GET /x HTTP/1.1`."""
        words = (_text(_first(line, self._names["line"])) or "").split(" ")
        return method or words[0], path or (words[1] if len(words) > 1 else "")

    def _headers_of(self, line: Mapping[str, Any]) -> Mapping[str, str]:
        given = line.get("headers")
        written = {str(key).lower(): value for key, value in given.items()} if isinstance(given, dict) else {}
        found = {}
        for name in self._headers:
            plain = name.replace("-", "_")
            value = _text(_first({**line, **written}, (name, plain, f"http_{plain}")))
            if value is not None:
                found[name] = value
        return found


def _first(line: Mapping[str, Any], names: Iterable[str]) -> Any:
    for name in names:
        value = line.get(name)
        if value not in NOTHING:
            return value
    return None


def _text(value: Any) -> str | None:
    """Text as it is, and whole and broken numbers; nothing else is a value."""
    if type(value) is str:
        return value
    return str(value) if type(value) in (int, float) else None
