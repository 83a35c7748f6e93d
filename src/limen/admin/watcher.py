"""Keeps a process at the state of the rules database: rules and clients, swapped in whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from limen.admin.api_keys import Secrets
from limen.admin.directory import Directory
from limen.admin.polling import Poller
from limen.admin.records import Snapshot, StoredRule
from limen.admin.stored_rules import readable_rules
from limen.rules.ruleset import RuleSet

__all__ = ["Watcher"]


class RulesDatabase(Protocol):
    """What a watcher needs of `limen.admin.repository.Repository`."""

    async def revision(self) -> int: ...
    async def snapshot(self) -> Snapshot: ...
    async def secrets(self) -> Secrets: ...


class Watcher(Poller[int]):
    """Asks for the revision every few seconds and loads everything when it is another one.

    A set with a rule that cannot be read, or that is not valid as a whole, is never swapped in: the previous set
    stays, the error goes to `on_error`, and the next look tries again. Clients do not wait for that: a key that was
    taken away stops to count although a rule is broken.

    Args:
        repository: the database.
        on_rules: is given each new set of rules.
        on_clients: is given each new list of clients.
        interval_s: seconds between two looks, give or take a tenth.
        on_error: is told of every failure.
        now: Unix time in seconds.

    Attributes:
        revision: of the rules that are in force; 0 before the first load.
    """

    def __init__(
        self,
        repository: RulesDatabase,
        on_rules: Callable[[RuleSet], None],
        on_clients: Callable[[Directory], None],
        *,
        on_error: Callable[[Exception], None],
        interval_s: float = 10.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(interval_s, on_error, now)
        self._repository = repository
        self._on_rules = on_rules
        self._on_clients = on_clients
        self.revision = 0

    async def look(self) -> int:
        return await self._repository.revision()

    async def load(self) -> int:
        snapshot = await self._repository.snapshot()
        self._on_clients(Directory(snapshot.clients, await self._repository.secrets()))
        # In a thread: a set of a thousand rules, or a row that somebody filled with rubbish, must not hold up requests.
        ruleset = await asyncio.to_thread(_ruleset, snapshot.rules, snapshot.revision)
        self._on_rules(ruleset)
        self.revision = snapshot.revision
        return snapshot.revision


def _ruleset(stored: Sequence[StoredRule], revision: int) -> RuleSet:
    return RuleSet(readable_rules(stored), revision)
