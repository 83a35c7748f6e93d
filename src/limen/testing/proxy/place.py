"""Where a target is, and how its URL reads when somebody stands in front of it."""

from __future__ import annotations

import re
from typing import NamedTuple

from limen.errors import UsageError

__all__ = ["Place", "place_of"]

TARGET = re.compile(
    r"(?P<before>(?:[a-z][a-z0-9+]*://)?(?:.*@)?) (?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:/?@,]+) (?::(?P<port>\d{1,5}))?"
    r"(?P<after>[/?].*)?",
    re.VERBOSE | re.DOTALL,
)
DEFAULT_PORT = 6379


class Place(NamedTuple):
    """A target, taken apart."""

    before: str
    host: str
    port: int
    after: str

    def moved(self, host: str, port: int) -> str:
        """The same URL with another host and port."""
        return f"{self.before}{f'[{host}]' if ':' in host else host}:{port}{self.after}"


def place_of(target: str | tuple[str, int]) -> Place:
    """Read `host:port`, a store URL that names one host, or (host, port).

    Raises:
        UsageError: it is none of these.
    """
    if not isinstance(target, str):
        return Place("", target[0], target[1], "")
    found = TARGET.fullmatch(target)
    if not found:
        raise UsageError(
            f"{target!r} is not one place; write 'host:port' or 'valkey://host:port', for each node its own"
        )
    return Place(found["before"], found["host"].strip("[]"), int(found["port"] or DEFAULT_PORT), found["after"] or "")
