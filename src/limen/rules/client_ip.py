"""Who is at the other end: the address that a request came from, and the prefix that it is counted by.

An address that a client wrote itself is worth nothing. So X-Forwarded-For is read only when the peer on the socket
is a trusted proxy, and then from the right: every proxy appends the peer that it saw, so the first address that is
not itself a trusted proxy is the client. Everything left of it was written by the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from limen.errors import UsageError

__all__ = ["UNKNOWN_ADDRESS", "client_address", "networks", "parse_address", "prefix_key"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

UNKNOWN_ADDRESS = "unknown"
"""The one client that all requests without any address share (a Unix socket that is not trusted)."""

OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
USUAL_IPV4 = re.compile(rf"{OCTET}(?:\.{OCTET}){{3}}")
"""An IPv4 address in the one spelling that it is counted by: seen at a tenth of the price of reading it."""

MAX_HOPS = 50
MAX_TEXT = 100
"""No spelling of an address is longer; longer texts are not even remembered."""


def parse_address(text: str) -> Address | None:
    """The address in `text`: any spelling, with or without port, brackets or zone. None when there is none.

    IPv4-mapped IPv6 addresses become IPv4: masking them first would put the whole IPv4 world in one /64.
    """
    return _parsed(text) if len(text) <= MAX_TEXT else None


@lru_cache(maxsize=16_384)
def _parsed(text: str) -> Address | None:
    bare = _without_port(text.strip())
    try:
        address = ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    if text.count(":") == 1:
        return text.partition(":")[0]
    return text


def prefix_key(text: str | None, ipv6_prefix: int = 64) -> str:
    """What an address is counted by: the IPv4 address, the IPv6 network of `ipv6_prefix` bits, or `unknown`."""
    return _prefix(text, ipv6_prefix) if text and len(text) <= MAX_TEXT else UNKNOWN_ADDRESS


@lru_cache(maxsize=16_384)
def _prefix(text: str, ipv6_prefix: int) -> str:
    if USUAL_IPV4.fullmatch(text):
        return text
    address = _parsed(text)
    if address is None:
        return UNKNOWN_ADDRESS
    if isinstance(address, IPv6Address):
        return str(ip_network((address, ipv6_prefix), strict=False))
    return str(address)


def networks(cidrs: Iterable[str]) -> tuple[Network, ...]:
    """Networks from their spellings, `10.0.0.0/8` or a single address. IPv4-mapped ones become IPv4.

    Raises:
        UsageError: names the one that is not a network.
    """
    found: list[Network] = []
    for cidr in cidrs:
        try:
            found.append(_unmapped(ip_network(cidr.strip(), strict=False)))
        except ValueError as error:
            raise UsageError(f"{cidr!r} is not a network; write it as '10.0.0.0/8' or '2001:db8::/32'") from error
    return tuple(found)


def _unmapped(net: Network) -> Network:
    mapped = net.network_address.ipv4_mapped if isinstance(net, IPv6Network) and net.prefixlen >= 96 else None
    return IPv4Network((mapped, net.prefixlen - 96)) if mapped else net


def client_address(
    peer: str | None, forwarded_for: Sequence[str], trusted: Sequence[Network], trust_unix: bool = False
) -> str | None:
    """The address of the client.

    Args:
        peer: the address on the socket; None or empty for a Unix socket.
        forwarded_for: the X-Forwarded-For lines, in order of appearance.
        trusted: networks of our own proxies. Empty: the peer is the client, whatever the header says.
        trust_unix: whether whoever speaks over a Unix socket is one of our own proxies.

    Returns the nearest untrusted address; the last readable hop when an entry cannot be read; the peer when nothing
    was forwarded; None when there is no address at all.
    """
    nearest = parse_address(peer) if peer else None
    if nearest is None and not trust_unix:
        return peer or None
    if nearest is not None and not _within(nearest, trusted):
        return str(nearest)
    for hop in _from_the_right(forwarded_for):
        address = parse_address(hop)
        if address is None:
            break
        nearest = address
        if not _within(address, trusted):
            break
    return None if nearest is None else str(nearest)


def _from_the_right(lines: Sequence[str]) -> list[str]:
    hops = [hop for line in lines for hop in line.split(",") if hop.strip()]
    return hops[: -MAX_HOPS - 1 : -1]


def _within(address: Address, nets: Sequence[Network]) -> bool:
    return any(address in net for net in nets)
