"""Under which name a request is counted.

An identity is text, and two different identities are never the same text: one part is `name=value` (no name has an
`=`), several parts carry the length of each value (`+client=4:acme;path.id=1:7`), no part at all is `*`. It never
leaves the process in this form: stores see a keyed hash of it.

A part that the request does not have falls back to the address that the request came from, so that nobody shares a
bucket with all other anonymous callers and nobody gets out of a limit by leaving something out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from limen.errors import UsageError
from limen.rules.client_ip import prefix_key
from limen.rules.match import PathPattern, bare_host
from limen.rules.request import Request

__all__ = ["EVERYBODY", "KeyFunction", "identity_of_client", "key_function"]

KeyFunction = Callable[[Request, Sequence[str]], str]
"""From a request and the segments of its canonical path to an identity."""

EVERYBODY = "*"
SIMPLE = ("client", "user", "ip", "plan", "host")
HEADER = re.compile(r"header\.[A-Za-z0-9-]+")
NETWORK = re.compile(r"ip/([1-9][0-9]{1,2})")
"""`ip/48`: IPv6 clients by their /48; plain `ip` means `ip/64`."""


def key_function(key_by: Sequence[str], pattern: PathPattern | None) -> KeyFunction:
    """The function that names the bucket of a request.

    Raises:
        UsageError: a part that is unknown, there twice, or not captured by the path pattern.
    """
    for index, part in enumerate(key_by):
        _check(part, pattern)
        if part in key_by[:index]:
            raise UsageError(f"key_by has {part!r} twice")
    if not key_by:
        return lambda request, segments: EVERYBODY
    if list(key_by) == ["client"]:
        return _client
    parts = [_part(name, pattern) for name in key_by]
    if len(parts) == 1:
        return parts[0]
    return lambda request, segments: _joined([part(request, segments) for part in parts])


def identity_of_client(client: str, key_by: Sequence[str]) -> str:
    """The identity behind a bare client name, for rules that have one part (or none) in their key.

    Raises:
        UsageError: the rule counts by more than one thing, so a name alone does not say which bucket is meant.
    """
    if not key_by:
        return EVERYBODY
    if len(key_by) > 1:
        raise UsageError(f"a rule keyed by {', '.join(key_by)} needs a whole request; use check_request")
    name = key_by[0]
    bits = _ipv6_bits(name)
    if bits:
        return f"{name}={prefix_key(client, bits)}"
    return f"{name}={bare_host(client) if name == 'host' else client}"


def _check(part: str, pattern: PathPattern | None) -> None:
    if not isinstance(part, str):
        raise UsageError(f"key_by is a list of names such as [client], not {part!r}")
    if part in SIMPLE or HEADER.fullmatch(part) or _ipv6_bits(part):
        return
    if part.startswith("path."):
        captures = pattern.captures if pattern else {}
        if part[5:] not in captures:
            raise UsageError(f"key_by {part!r} needs match.path with a segment {{{part[5:]}}}")
        return
    raise UsageError(f"key_by has no {part!r}; it knows {', '.join(SIMPLE)}, ip/48, path.NAME and header.NAME")


def _ipv6_bits(part: str) -> int | None:
    """How much of an IPv6 address `ip` or `ip/N` counts by; None for parts that are no address."""
    if part == "ip":
        return 64
    found = NETWORK.fullmatch(part)
    return int(found[1]) if found and int(found[1]) <= 128 else None


def _client(request: Request, _: Sequence[str]) -> str:
    client = request.client
    return f"client={client}" if client else _address(request)


def _address(request: Request) -> str:
    return f"ip={prefix_key(request.ip)}"


def _part(name: str, pattern: PathPattern | None) -> KeyFunction:
    bits = _ipv6_bits(name)
    if bits:
        return lambda request, segments: f"{name}={prefix_key(request.ip, bits)}"
    if name == "host":
        return lambda request, segments: _or_address(name, bare_host(request.host), request)
    if name.startswith("path.") and pattern is not None:
        index = pattern.captures[name[5:]]
        return lambda request, segments: f"{name}={segments[index]}"
    if name.startswith("header."):
        header = name[7:].lower()
        return lambda request, segments: _or_address(name, request.headers.get(header), request)
    return lambda request, segments: _or_address(name, getattr(request, name), request)


def _or_address(name: str, value: str | None, request: Request) -> str:
    return f"{name}={value}" if value else _address(request)


def _joined(parts: Sequence[str]) -> str:
    named = (part.partition("=") for part in parts)
    return "+" + ";".join(f"{name}={len(value)}:{value}" for name, _, value in named)
