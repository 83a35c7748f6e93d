"""From a store URL to a store."""

from __future__ import annotations

import os

from limen.engine.clock import Clock, epoch_clock
from limen.engine.given_store import for_coroutines
from limen.errors import SettingsError
from limen.stores.base import AsyncStore
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore

__all__ = ["check_deadline", "open_store"]

SHORTEST_DEADLINE_MS, LONGEST_DEADLINE_MS = 0.5, 60_000


def open_store(
    url: str | AsyncStore,
    clock: Clock,
    secret: str | bytes | None,
    deadline_ms: float,
    previous_secret: str | bytes | None = None,
) -> AsyncStore:
    """The store behind a URL, not yet connected; or the one that is given.

    Raises:
        UsageError: what is given is not a store for coroutines.
        SettingsError: not a store URL, a file in it that cannot be read, or not a deadline; the message says what is
            wrong.
    """
    check_deadline(deadline_ms)
    if not isinstance(url, str):
        return for_coroutines(url)
    if url == "memory://":
        return AsyncMemoryStore(MemoryStore(clock.now_us, epoch_us=epoch_clock(clock)))
    from limen.stores.valkey.aio import AsyncValkeyStore
    from limen.stores.valkey.aio_cluster import AsyncClusterStore
    from limen.stores.valkey.names import Names
    from limen.stores.valkey.rotation import AsyncRotatingStore
    from limen.stores.valkey.script import Commands
    from limen.stores.valkey.url import parse_target

    target = parse_target(url)
    tls = target.login.tls
    if tls is not None:
        check_files(tls_ca=tls.ca, tls_cert=tls.cert, tls_key=tls.key)
    kind = AsyncClusterStore if target.kind == "cluster" else AsyncValkeyStore
    store = kind(target, Commands(Names(secret, previous_secret)), deadline_ms)
    return store if previous_secret is None else AsyncRotatingStore(store)


def check_deadline(deadline_ms: float) -> None:
    """
    Raises:
        SettingsError: it cannot be kept, or never ends.
    """
    if not SHORTEST_DEADLINE_MS <= deadline_ms <= LONGEST_DEADLINE_MS:
        range_ms = f"{SHORTEST_DEADLINE_MS} to {LONGEST_DEADLINE_MS}"
        raise SettingsError(f"deadline_ms must be a number of milliseconds from {range_ms}, not {deadline_ms!r}")


def check_files(**paths: str) -> None:
    """
    Raises:
        SettingsError: a file that the store URL names is not there, or not for us to read.
    """
    for option, path in paths.items():
        if path and not (os.path.isfile(path) and os.access(path, os.R_OK)):
            raise SettingsError(f"the store URL names {path!r} as {option}, which is not a file that can be read")
