"""What lies in the rules database. Pure."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ALIVE_S",
    "DELETED",
    "UNSIGNED",
    "Drill",
    "Fleet",
    "Gateway",
    "Heard",
    "RuleVersion",
    "SeenGateway",
    "Signature",
    "Snapshot",
    "StoredClient",
    "StoredRule",
]

ALIVE_S = 10
"""A process that was not heard of for so long is not alive."""


class Signature(NamedTuple):
    """Who changes something, and why."""

    author: str = "local"
    """The name of a token, an identity that a front proxy vouches for, or `local`: somebody on this machine."""
    role: str = "approver"
    """`viewer`, `editor` or `approver`."""
    reason: str = ""
    confirmed: bool = False
    """Whether the author has seen what the change does and wants it all the same."""


UNSIGNED = Signature()
"""A process of this machine that has the database itself, such as the command line."""


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
    carry: str | None = None
    """How buckets become those of its limit, while they do: JSON text (`carrying`)."""


DELETED = ""
"""Stands for a document in the history: the rule was deleted."""


class RuleVersion(NamedTuple):
    """One version of a rule, as it was put."""

    rule_id: str
    version: int
    revision: int
    """The revision of the whole database that it came with."""
    document: str
    """JSON text; `DELETED` when the rule was deleted with this version."""
    action: str
    """`put`, `apply`, `delete`, `rollback`, `promote`, `approve`; `unknown` when Limen did not write it."""
    author: str
    role: str
    reason: str
    at: int
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
    standing: int = 0
    """How often something was said of single clients."""
    behind: int = 0
    """How many are alive and have older rules than the database."""


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
