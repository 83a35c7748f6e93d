"""What lies in the rules database. Pure."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Snapshot", "StoredClient", "StoredRule"]


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
