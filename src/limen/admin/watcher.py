"""Keeps a process at the state of the rules database: rules and clients, swapped in whole."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from limen.admin.api_keys import Secrets
from limen.admin.background import in_background, let_go, made_many, without_stops
from limen.admin.directory import Directory
from limen.admin.last_good import Saved
from limen.admin.polling import Poller, ignore_look
from limen.admin.records import Snapshot, StoredRule
from limen.admin.stored_rules import Good, Salvaged, rule_of, salvaged
from limen.errors import LimenError, Problem, RuleError, RulesUnavailable
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet

__all__ = ["Disk", "Problems", "Watcher"]

log = logging.getLogger("limen.rules")

Problems = Mapping[str, tuple[Problem, ...]]
BROKEN = -1
"""No revision: while a rule is broken everything is loaded at each look, for somebody may mend it by hand."""
MANY_RULES = 1000
MOST_LOST = 100
"""Rules whose history is asked for. Where more are rubbish, nobody is helped by a part of them."""


def no_problems(problems: Problems) -> None:
    """Nobody asks."""


class RulesDatabase(Protocol):
    """What a watcher needs of `limen.admin.repository.Repository`."""

    async def revision(self) -> int: ...
    async def snapshot(self) -> Snapshot: ...
    async def secrets(self) -> Secrets: ...
    async def kept_secret(self) -> str | None: ...
    async def once_good(self, rule_ids: Sequence[str]) -> Sequence[StoredRule]: ...
    def secrets_with(self, kept: str | None) -> Secrets: ...


class Disk(Protocol):
    """Where the last good state is kept, such as `limen.admin.last_good.LastGood`. Both raise `RulesUnavailable`."""

    def save(self, saved: Saved) -> bool: ...
    def load(self) -> Saved: ...


class Watcher(Poller[int]):
    """Asks for the revision every few seconds and loads everything when it is another one.

    A rule that cannot be read holds nothing else up: it stays as it was when it could be, here or in the history, and
    the others move on. That is told to `on_error` and `on_problems` at every look until it is mended. A database in
    which no rule can be read is not followed at all.

    Args:
        repository: the database.
        on_rules: is given each new set of rules.
        on_clients: is given each new list of clients.
        interval_s: seconds between two looks, give or take a tenth.
        on_error: is told of every failure.
        now: Unix time in seconds.
        on_look: is told after every look.
        disk: where each good state is saved, for a start without the database.
        on_problems: is given what is wrong with which rules, whenever that changes.

    Attributes:
        revision: of the rules that are in force; 0 before the first load.
        from_disk: whether the rules in force are those that were saved.
        secrets: that go with the rules in force; None before the first load.
        problems: with rules of the database that are not in force as they are there, by id.
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
        on_problems: Callable[[Problems], None] = no_problems,
    ) -> None:
        super().__init__(interval_s, on_error, now, on_look)
        self._repository = repository
        self._on_rules = on_rules
        self._on_clients = on_clients
        self._disk = disk
        self._on_problems = on_problems
        self._snapshot: Snapshot | None = None
        self._good: Good = {}
        self._pieces: list[object] = []
        """Of what is in force: held, so that it does not go all at once when something else comes in its place."""
        self.problems: Problems = {}
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
        with without_stops():
            return await self._load()

    async def _load(self) -> int:
        snapshot = await self._repository.snapshot()
        self.secrets = await self._repository.secrets()
        self._on_clients(await asyncio.to_thread(Directory, snapshot.clients, self.secrets))
        try:
            usable = await self._put_in_force(snapshot)
        except LimenError:
            if self._snapshot is not None:
                await self._save(self._snapshot._replace(clients=snapshot.clients))
            raise
        self.from_disk = False
        await self._save(usable)
        return BROKEN if self.problems else snapshot.revision

    def trouble(self) -> Exception | None:
        return RuleError([each for found in self.problems.values() for each in found]) if self.problems else None

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

    async def _put_in_force(self, snapshot: Snapshot) -> Snapshot:
        """Decide by it, as far as it can be used; what is used."""
        found, good, pieces = await self._salvaged(snapshot)
        if found.problems:
            self._on_error(RuleError([each for problems in found.problems.values() for each in problems]))
        if found.problems != self.problems:
            self.problems = found.problems
            self._on_problems(found.problems)
        usable = snapshot._replace(rules=found.rows)
        if self._snapshot is None or usable[:2] != self._snapshot[:2]:
            self._on_rules(found.ruleset)
        self._good, self._snapshot, self.revision = good, usable, snapshot.revision
        let_go(self._pieces)
        self._pieces = pieces
        return usable

    async def _salvaged(self, snapshot: Snapshot) -> _Read:
        """In threads: a set of a thousand rules, or a row that somebody filled with rubbish, must not hold up requests.

        Raises:
            RuleError: there are rules, and none can be used.
        """
        rules, revision = snapshot.rules, snapshot.revision
        if len(rules) >= MANY_RULES:
            made_many()
        read = await in_background(_read, rules, self._good, revision)
        lost = read.found.problems.keys() - self._good.keys()
        if lost:
            good = await self._good_once([row for row in rules if row.id in lost][:MOST_LOST])
            read = await in_background(_read, rules, {**self._good, **good}, revision)
        if rules and not read.found.rows:
            raise RuleError([each for problems in read.found.problems.values() for each in problems])
        return read

    async def _good_once(self, lost: Sequence[StoredRule]) -> Good:
        """The last good version of rules that this process has never seen good, from the disk or the history."""
        saved: Sequence[StoredRule] = ()
        if self._disk is not None and self._snapshot is None:
            with contextlib.suppress(RulesUnavailable):
                saved = (await asyncio.to_thread(self._disk.load)).snapshot.rules
        history = await self._repository.once_good([row.id for row in lost])
        return await asyncio.to_thread(_newest_good, (*history, *saved), lost)

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


class _Read(NamedTuple):
    """What was read of a database, and what is needed of it later: made where the time for it is."""

    found: Salvaged
    good: Good
    pieces: list[object]


def _read(rows: Sequence[StoredRule], good: Good, revision: int) -> _Read:
    found = salvaged(rows, good, revision)
    now_good = found.good
    return _Read(found, now_good, [*found.rows, *now_good.values(), *found.ruleset.pieces()])


def _newest_good(rows: Sequence[StoredRule], lost: Sequence[StoredRule]) -> Good:
    """Of each of the lost rules that has one: the readable row of the highest version that is another than the lost."""
    wrong = {row.id: row.document for row in lost}
    found: dict[str, tuple[StoredRule, Rule]] = {}
    for row in sorted(rows, key=lambda row: row.version, reverse=True):
        if row.id in wrong and row.document != wrong[row.id] and row.id not in found:
            with contextlib.suppress(RuleError):
                found[row.id] = row, rule_of(row)
    return found
