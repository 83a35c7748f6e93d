"""Requests that a page of somebody else could have made a browser send. Pure.

A secret in the request cannot be sent by such a page; an address, or a login that a front proxy remembers, can. So
where one of those lets somebody in, a change must show that it comes from our own page, or from no browser:

    X-Limen-Request: 1       a page of another origin cannot add it without asking first, and is not answered
    Sec-Fetch-Site           browsers write it, pages cannot: `same-origin`, or `none` for what a person typed
    Origin                   of a page; the same host as in Host. For browsers that do not write the one above
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from limen.rules.client_ip import parse_address

__all__ = ["is_foreign", "is_forwarded", "is_own", "is_this_machine"]

Lines = Callable[[str], list[str]]
OWN_SITES = frozenset({"same-origin", "none"})
FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
PORT = re.compile(r":\d+$")


def is_own(lines: Lines) -> bool:
    """Whether the request shows that it comes from our own page, or from a program."""
    if lines("x-limen-request") == ["1"]:
        return True
    return not is_foreign(lines) and bool(lines("sec-fetch-site") or lines("origin"))


def is_foreign(lines: Lines) -> bool:
    """Whether the request shows that it comes from the page of somebody else. Only browsers say so."""
    if lines("x-limen-request") == ["1"]:
        return False
    sites = lines("sec-fetch-site")
    if sites:
        return any(site not in OWN_SITES for site in sites)
    hosts = [host.lower() for host in lines("host")]
    return any([_host_of(origin)] != hosts for origin in lines("origin"))


def is_forwarded(lines: Lines) -> bool:
    """Whether a proxy handed the request on, as far as proxies say so. Its sender may be anywhere."""
    return any(lines(name) for name in FORWARDED)


def is_this_machine(hosts: list[str]) -> bool:
    """Whether Host names this machine. A name of somebody else's that leads here (DNS rebinding) does not."""
    if len(hosts) != 1:
        return False
    name = PORT.sub("", hosts[0].lower()).rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = parse_address(name)
    return address is not None and address.is_loopback


def _host_of(origin: str) -> str:
    """Host and port of an origin, as Host has them; empty for `null`."""
    try:
        return urlsplit(origin.strip().lower()).netloc
    except ValueError:
        return ""
