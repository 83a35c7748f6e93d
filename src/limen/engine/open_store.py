"""From a store URL to a store."""

from __future__ import annotations

from limen.engine.clock import Clock
from limen.errors import SettingsError
from limen.stores.base import AsyncStore
from limen.stores.memory import AsyncMemoryStore, MemoryStore

__all__ = ["open_store"]

SHORTEST_DEADLINE_MS, LONGEST_DEADLINE_MS = 0.5, 60_000
LATER = ("valkey+cluster", "redis+cluster", "valkey+sentinel", "redis+sentinel")


def open_store(url: str, clock: Clock, secret: str | bytes | None, deadline_ms: float) -> AsyncStore:
    """The store behind a URL, not yet connected.

    Raises:
        SettingsError: not a store URL, or not a deadline; the message says what one looks like.
    """
    if not SHORTEST_DEADLINE_MS <= deadline_ms <= LONGEST_DEADLINE_MS:
        range_ms = f"{SHORTEST_DEADLINE_MS} to {LONGEST_DEADLINE_MS}"
        raise SettingsError(f"deadline_ms must be a number of milliseconds from {range_ms}, not {deadline_ms!r}")
    scheme = url.partition("://")[0]
    if url == "memory://":
        return AsyncMemoryStore(MemoryStore(clock.now_us))
    if scheme in ("valkey", "valkeys", "redis", "rediss"):
        from limen.stores.valkey.aio import AsyncValkeyStore
        from limen.stores.valkey.endpoint import parse_endpoint

        return AsyncValkeyStore(parse_endpoint(url), secret, deadline_ms)
    if scheme in LATER:
        raise SettingsError(
            f"{scheme}:// stores are not supported; give the address of one server, valkey://host:port/db"
        )
    what = repr(scheme + "://") if "://" in url else "something without ://"
    raise SettingsError(f"a store is memory://, valkey://host:port/db or valkeys://host:port/db, not {what}")
