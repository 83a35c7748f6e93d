"""From a store URL to a store for code that blocks."""

from __future__ import annotations

from limen.engine.clock import Clock, epoch_clock
from limen.engine.given_store import for_threads
from limen.engine.open_store import check_deadline, check_files
from limen.errors import SettingsError
from limen.stores.base import Store
from limen.stores.memory import MemoryStore

__all__ = ["open_sync_store"]

MOST_CONNECTIONS = 10_000

Secrets = tuple[str | bytes | None, str | bytes | None]
"""The secret, and the one before it while it is being replaced."""


def open_sync_store(
    url: str | Store, clock: Clock, secrets: Secrets, deadline_ms: float, max_connections: int, max_buckets: int
) -> Store:
    """The store behind a URL, not yet connected; or the one that is given.

    Raises:
        UsageError: what is given is not a store for threads.
        SettingsError: not a store URL, a file in it that cannot be read, or a number that cannot work; the message
            says what is wrong.
    """
    check_deadline(deadline_ms)
    check_connections(max_connections)
    if not isinstance(url, str):
        return for_threads(url)
    if url == "memory://":
        return MemoryStore(clock.now_us, max_buckets, epoch_clock(clock))
    return _shared(url, secrets, deadline_ms, max_connections)


def check_connections(max_connections: int) -> None:
    """
    Raises:
        SettingsError: there would be none, or more than a process can have.
    """
    if type(max_connections) is not int or not 1 <= max_connections <= MOST_CONNECTIONS:
        wanted = f"a whole number from 1 to {MOST_CONNECTIONS}"
        raise SettingsError(f"max_connections must be {wanted}, not {max_connections!r}")


def _shared(url: str, secrets: Secrets, deadline_ms: float, max_connections: int) -> Store:
    from limen.stores.valkey.names import Names
    from limen.stores.valkey.rotation import RotatingStore
    from limen.stores.valkey.script import Commands
    from limen.stores.valkey.sync import ValkeyStore
    from limen.stores.valkey.sync_cluster_store import ValkeyClusterStore
    from limen.stores.valkey.url import parse_target

    target = parse_target(url)
    tls = target.login.tls
    if tls is not None:
        check_files(tls_ca=tls.ca, tls_cert=tls.cert, tls_key=tls.key)
    kind = ValkeyClusterStore if target.kind == "cluster" else ValkeyStore
    store = kind(target, Commands(Names(*secrets)), deadline_ms, max_connections)
    return store if secrets[1] is None else RotatingStore(store)
