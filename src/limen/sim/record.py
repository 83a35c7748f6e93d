"""What is read from a log."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, NamedTuple, Protocol

from limen.rules.request import Request

__all__ = ["KeyedBy", "LogFormat", "Parsed", "Record", "Wanted", "target"]

KeyedBy = Literal["client", "ip"]

Record = tuple[int, Request]
"""When it came, in microseconds since 1970, and what it was."""


class Parsed(NamedTuple):
    """What was found in some lines."""

    records: list[Record]
    unreadable: list[str]
    """Lines that hold no request."""


class Wanted(NamedTuple):
    """What is read of each line beside method, path, host and address."""

    keyed_by: KeyedBy = "client"
    """`ip`: nobody is known by name."""
    headers: Collection[str] = ()
    """Names in lower case."""


class LogFormat(Protocol):
    """How the lines of a log are written."""

    name: str
    fields: frozenset[str]
    """Fields of `Request` that a line can hold at all; `*` for whatever it likes."""

    def parse(self, block: str) -> Parsed:
        """The requests in whole lines, in their order."""


ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#]*)(.*)", re.DOTALL)
DEFAULT_PORTS = (":80", ":443")


def target(text: str) -> tuple[str, str]:
    """Host and path of a request target: a path alone, an absolute URL, or neither (`*`, `example.com:443`)."""
    if text.startswith("/"):
        return "", text
    found = ABSOLUTE.fullmatch(text)
    if found is None:
        return "", "/"
    host = found[1]
    for port in DEFAULT_PORTS:
        host = host.removesuffix(port)
    return host, found[2] or "/"
