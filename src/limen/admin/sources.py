"""Rules by URL, for limiters: `file:///rules.yaml`, `sqlite:///rules.db`, `postgresql://…`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from limen.admin.polling import ignore_look
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Standing

__all__ = ["LoadedSource", "Reports", "rules_from_database", "rules_from_file"]

log = logging.getLogger("limen.rules")


class Watching(Protocol):
    """What a source drives: a `Watcher` or a `FileWatcher`."""

    interval_s: float

    def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def load_now(self) -> None: ...
    async def once(self) -> None: ...


class LoadedSource:
    """Watches rules, and has loaded them once when `start` returns.

    Args:
        watcher: who watches the rules.
        close: what to close in the end.
        others: who watch what goes with them.
    """

    def __init__(
        self, watcher: Watching, close: Callable[[], Awaitable[None]] | None = None, *others: Watching
    ) -> None:
        self._watchers = (watcher, *others)
        self._close = close
        self.every_s = watcher.interval_s

    async def refresh(self) -> None:
        """Look at once; a failure is reported, and the rules stay as they were."""
        for watcher in self._watchers:
            await watcher.once()

    async def start(self) -> None:
        """Load the rules and begin to watch them.

        Raises:
            RuleError: they are not valid.
            RulesUnavailable: they cannot be read.
        """
        try:
            for watcher in self._watchers:
                await watcher.load_now()
        except BaseException:
            await self.stop()
            raise
        for watcher in self._watchers:
            watcher.start()

    async def stop(self) -> None:
        for watcher in self._watchers:
            await watcher.stop()
        if self._close is not None:
            await self._close()


class Reports:
    """Hands rules on, and writes one line for each new failure: not one for each look that finds it again."""

    def __init__(self, use_rules: Callable[[RuleSet], None]) -> None:
        self._use_rules = use_rules
        self._written: str | None = None

    def use(self, ruleset: RuleSet) -> None:
        self._use_rules(ruleset)
        self._written = None

    def mention(self, problem: str) -> None:
        """One row says nothing that can be read; all others count."""
        log.warning("what somebody wrote into the rules database counts as nothing: %s", problem)

    def report(self, error: Exception) -> None:
        if str(error) != self._written:
            self._written = str(error)
            log.warning("the rules stay as they were: %s", error)


def ignore_standing(standing: Standing) -> None:
    """Nobody asks what is said of single clients."""


def rules_from_file(
    url: str,
    use_rules: Callable[[RuleSet], None],
    looked: Callable[[], None] = ignore_look,
    use_standing: Callable[[Standing], None] = ignore_standing,
) -> LoadedSource:
    """Rules in a file, read again when it changes. Nothing is said there of single clients."""
    from limen.admin.rule_files import FileWatcher

    reports = Reports(use_rules)
    return LoadedSource(FileWatcher(url, reports.use, on_error=reports.report, on_look=looked))


def rules_from_database(
    url: str,
    use_rules: Callable[[RuleSet], None],
    looked: Callable[[], None] = ignore_look,
    use_standing: Callable[[Standing], None] = ignore_standing,
) -> LoadedSource:
    """Rules, and what is said of single clients, in a database; read again when they change."""
    from limen.admin.repository import Repository  # its libraries load only when it is used
    from limen.admin.standing_watcher import StandingWatcher
    from limen.admin.watcher import Watcher

    reports, repository = Reports(use_rules), Repository(url)
    watcher = Watcher(repository, reports.use, lambda clients: None, on_error=reports.report, on_look=looked)
    saying = StandingWatcher(repository.standing, use_standing, on_problem=reports.mention, on_error=reports.report)
    return LoadedSource(watcher, repository.close, saying)
