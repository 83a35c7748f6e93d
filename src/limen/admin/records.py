"""What lies in the rules database. Pure."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ALIVE_S", "Drill", "Fleet", "Gateway", "Heard", "SeenGateway", "Snapshot", "StoredClient", "StoredRule"
]  # fmt: skip

ALIVE_S = 10
"""A process that was not heard of for so long is not alive."""


class StoredRule(NamedTuple):
    """A rule as it lies in the database: perhaps not readable, when somebody wrote there by other means."""

    id: str
    document: str
    """JSON text."""
    version: int
    """1 for the first; goes on when a rule is deleted and made again."""
    revision: int
    """The revision of the whole database in which it was changed last."""
    updated_at: int
    """Unix time in seconds."""


class StoredClient(NamedTuple):
    client: str
    plan: str | None
    digests: tuple[str, ...]
    """Keyed hashes of the client's API keys."""
    revision: int


class Snapshot(NamedTuple):
    """Everything at one moment."""

    revision: int
    rules: tuple[StoredRule, ...]
    clients: tuple[StoredClient, ...]


class Gateway(NamedTuple):
    """What a process that decides tells of itself."""

    id: str
    """Of this process alone, made at its start."""
    host: str
    pid: int
    kind: str
    """`gateway`, `service` or `up`."""
    started: int
    """Unix time in seconds, by its own clock."""
    revision: int
    """Of the rules that it decides by; 0 while it has none."""
    state: str
    """`ready`, `waiting` for rules, or `draining`."""
    store: str
    """`up`, `down`, or `memory`."""
    drill_percent: float
    """The share of clients that it decides without the store, as a rehearsal."""


class SeenGateway(NamedTuple):
    """A process, and when it was heard of."""

    gateway: Gateway
    seen_s_ago: int


class Drill(NamedTuple):
    """An outage that is rehearsed."""

    what: str
    """`store-down`: that share of clients is decided as if the store did not answer."""
    percent: float
    started: int
    ends: int
    """Unix time in seconds, as `started`, by the clock of the database."""
    reason: str


class Heard(NamedTuple):
    """What a process learns when it tells that it is alive."""

    alive: int
    """How many are, it included."""
    most: int
    """The most that were at one time within the last ten minutes."""
    revision: int
    """Of the rules."""
    drill: Drill | None
    drill_s: int
    """Seconds that the drill still lasts."""


class Fleet(NamedTuple):
    """Who runs on these rules."""

    revision: int
    """Of the rules."""
    alive: int
    most: int
    """The most that were alive at one time within the last ten minutes."""
    gateways: tuple[SeenGateway, ...]
    """Those of the last hour that did not say goodbye."""
    drill: Drill | None
    drill_s: int
