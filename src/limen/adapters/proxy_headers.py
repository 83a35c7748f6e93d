"""Which fields go through a reverse proxy, in both directions. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from limen.adapters.cors import RawHeaders

__all__ = ["forwarded_path", "request_headers", "response_headers"]

HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te"}
    | {b"trailer", b"transfer-encoding", b"upgrade"}
)
"""RFC 9110 section 7.6.1, and what older peers send."""

REPLACED = frozenset({b"host", b"expect", b"x-forwarded-for"})
SAID_BY_PROXIES = frozenset({b"forwarded", b"x-real-ip", b"x-forwarded-host", b"x-forwarded-proto"})


def request_headers(
    headers: Iterable[tuple[bytes, bytes]], peer: str | None, scheme: str, believed: bool
) -> list[tuple[str, str]]:
    """The fields that the upstream gets.

    Args:
        headers: as the client sent them, names in lower case.
        peer: the address on the socket; it is appended to X-Forwarded-For.
        scheme: `http` or `https`, as the client spoke it.
        believed: the peer is a proxy of ours, so what it says of the client (X-Forwarded-Host, -Proto, X-Real-IP,
            Forwarded) stays; from anybody else that is dropped and written anew.

    Raises:
        UnicodeDecodeError: a value is not UTF-8 and could not be passed on as it is.
    """
    headers = list(headers)
    dropped = HOP_BY_HOP | REPLACED | _named_by_connection(headers)
    if not believed:
        dropped |= SAID_BY_PROXIES
    kept = [(name.decode("ascii"), value.decode()) for name, value in headers if name not in dropped]
    known = {name for name, _ in kept}
    if "x-forwarded-proto" not in known:
        kept.append(("x-forwarded-proto", scheme))
    if "x-forwarded-host" not in known:
        kept += [("x-forwarded-host", value.decode()) for name, value in headers if name == b"host"]
    hops = [value.decode() for name, value in headers if name == b"x-forwarded-for" and value]
    if peer:
        hops.append(peer)
    return [*kept, ("x-forwarded-for", ", ".join(hops))] if hops else kept


def response_headers(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The fields that the client gets: those of the upstream, in their order, doubles too."""
    written = [(name.lower(), value) for name, value in headers]
    dropped = HOP_BY_HOP | _named_by_connection(written)
    return [(name, value) for name, value in written if name not in dropped]


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    lines = [value for name, value in headers if name == b"connection"]
    return frozenset(token.strip().lower() for line in lines for token in line.split(b","))


def forwarded_path(raw: str) -> str:
    """The path for the upstream: dots and doubled slashes resolved as rules resolve them, the rest as it was sent.

    Percent-encoding, parameters (`;v=1`) and a final slash mean something to some upstreams; they cannot lead the
    upstream to a resource with another canonical path.
    """
    if "//" not in raw and "/." not in raw and "/;" not in raw:
        return raw
    kept: list[str] = []
    segments = raw.split("/")
    for segment in segments:
        name = segment.partition(";")[0]
        if name == "..":
            del kept[-1:]
        elif name not in ("", "."):
            kept.append(segment)
    last = segments[-1].partition(";")[0]
    return "/" + "/".join(kept) + ("/" if kept and last in ("", ".", "..") else "")
