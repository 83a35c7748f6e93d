"""Where a server is and how to log in to it, from a URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from limen.errors import SettingsError

__all__ = ["Endpoint", "parse_endpoint"]

DEFAULT_PORT = 6379
EXAMPLE = "write it as valkey://user:password@host:6379/0 (valkeys:// for TLS)"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server. Its text never shows the password."""

    host: str
    port: int = DEFAULT_PORT
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False

    def __str__(self) -> str:
        return f"valkey{'s' if self.tls else ''}://{self.host}:{self.port}/{self.database}"


def parse_endpoint(url: str) -> Endpoint:
    """The server behind `valkey://`, `valkeys://`, `redis://` or `rediss://`.

    Raises:
        SettingsError: says what is wrong, without repeating a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
    except ValueError as error:
        raise SettingsError(f"the store URL has no readable host and port; {EXAMPLE}") from error
    if parts.scheme not in ("valkey", "valkeys", "redis", "rediss") or not parts.hostname:
        raise SettingsError(f"the store URL has no host; {EXAMPLE}")
    if parts.query or parts.fragment:
        raise SettingsError(f"the store URL has a query, which is not understood; {EXAMPLE}")
    database = parts.path.strip("/") or "0"
    if not database.isdigit():
        raise SettingsError(f"what follows the host of the store is not the number of a database; {EXAMPLE}")
    return Endpoint(
        parts.hostname,
        port,
        int(database),
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else None,
        parts.scheme in ("valkeys", "rediss"),
    )
