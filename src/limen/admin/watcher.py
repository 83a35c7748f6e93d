"""Keeps a process at the state of the rules database: rules and clients, swapped in whole."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from limen.admin.api_keys import Secrets
from limen.admin.directory import Directory
from limen.admin.last_good import Saved
from limen.admin.polling import Poller, ignore_look
from limen.admin.records import Snapshot, StoredRule
from limen.admin.stored_rules import ruleset_of
from limen.errors import LimenError, RulesUnavailable
from limen.rules.ruleset import RuleSet

__all__ = ["Disk", "Watcher"]

log = logging.getLogger("limen.rules")


class RulesDatabase(Protocol):
    """What a watcher needs of `limen.admin.repository.Repository`."""

    async def revision(self) -> int: ...
    async def snapshot(self) -> Snapshot: ...
    async def secrets(self) -> Secrets: ...
    async def kept_secret(self) -> str | None: ...
    def secrets_with(self, kept: str | None) -> Secrets: ...


class Disk(Protocol):
    """Where the last good state is kept, such as `limen.admin.last_good.LastGood`. Both raise `RulesUnavailable`."""

    def save(self, saved: Saved) -> bool: ...
    def load(self) -> Saved: ...


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
        on_look: is told after every look.
        disk: where each good state is saved, for a start without the database.

    Attributes:
        revision: of the rules that are in force; 0 before the first load.
        from_disk: whether the rules in force are those that were saved.
        secrets: that go with the rules in force; None before the first load.
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
        on_look: Callable[[], None] = ignore_look,
        disk: Disk | None = None,
    ) -> None:
        super().__init__(interval_s, on_error, now, on_look)
        self._repository = repository
        self._on_rules = on_rules
        self._on_clients = on_clients
        self._disk = disk
        self._good: Snapshot | None = None
        self._disk_error = ""
        self.revision = 0
        self.from_disk = False
        self.secrets: Secrets | None = None

    @property
    def stale(self) -> bool:
        """Whether the rules in force may be old: saved ones, or several looks in a row have failed."""
        return self.from_disk or super().stale

    async def look(self) -> int:
        return await self._repository.revision()

    async def load(self) -> int:
        snapshot = await self._repository.snapshot()
        self.secrets = await self._repository.secrets()
        self._on_clients(Directory(snapshot.clients, self.secrets))
        try:
            await self._put_in_force(snapshot)
        except LimenError:
            if self._good is not None:
                await self._save(self._good._replace(clients=snapshot.clients))
            raise
        self.from_disk = False
        await self._save(snapshot)
        return snapshot.revision

    async def recall(self) -> None:
        """Put the state in force that was saved last, and go on looking for a newer one.

        Raises:
            RulesUnavailable: there is none that can be used.
        """
        if self._disk is None:
            raise RulesUnavailable("rules are not saved on this machine")
        snapshot, kept_secret = await asyncio.to_thread(self._disk.load)
        self.secrets = self._repository.secrets_with(kept_secret)
        self._on_clients(Directory(snapshot.clients, self.secrets))
        await self._put_in_force(snapshot)
        self.from_disk = True

    async def _put_in_force(self, snapshot: Snapshot) -> None:
        # In a thread: a set of a thousand rules, or a row that somebody filled with rubbish, must not hold up requests.
        ruleset = await asyncio.to_thread(_ruleset, snapshot.rules, snapshot.revision)
        self._on_rules(ruleset)
        self.revision = snapshot.revision
        self._good = snapshot

    async def _save(self, snapshot: Snapshot) -> None:
        """A disk that does not take it is no reason to refuse the rules."""
        if self._disk is None:
            return
        saved = Saved(snapshot, await self._repository.kept_secret())
        try:
            await asyncio.to_thread(self._disk.save, saved)
            self._disk_error = ""
        except RulesUnavailable as error:
            if str(error) != self._disk_error:
                log.warning("a start without the rules database will not know these rules: %s", error)
            self._disk_error = str(error)


def _ruleset(stored: Sequence[StoredRule], revision: int) -> RuleSet:
    return ruleset_of(stored, revision)
