"""Rules by URL, for limiters: `file:///rules.yaml`, `sqlite:///rules.db`, `postgresql://…`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from limen.admin.polling import ignore_look
from limen.rules.ruleset import RuleSet

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
        watcher: who watches.
        close: what to close in the end.
    """

    def __init__(self, watcher: Watching, close: Callable[[], Awaitable[None]] | None = None) -> None:
        self._watcher = watcher
        self._close = close
        self.every_s = watcher.interval_s

    async def refresh(self) -> None:
        """Look at once; a failure is reported, and the rules stay as they were."""
        await self._watcher.once()

    async def start(self) -> None:
        """Load the rules and begin to watch them.

        Raises:
            RuleError: they are not valid.
            RulesUnavailable: they cannot be read.
        """
        try:
            await self._watcher.load_now()
        except BaseException:
            await self.stop()
            raise
        self._watcher.start()

    async def stop(self) -> None:
        await self._watcher.stop()
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

    def report(self, error: Exception) -> None:
        if str(error) != self._written:
            self._written = str(error)
            log.warning("the rules stay as they were: %s", error)


def rules_from_file(
    url: str, use_rules: Callable[[RuleSet], None], looked: Callable[[], None] = ignore_look
) -> LoadedSource:
    """Rules in a file, read again when it changes."""
    from limen.admin.rule_files import FileWatcher

    reports = Reports(use_rules)
    return LoadedSource(FileWatcher(url, reports.use, on_error=reports.report, on_look=looked))


def rules_from_database(
    url: str, use_rules: Callable[[RuleSet], None], looked: Callable[[], None] = ignore_look
) -> LoadedSource:
    """Rules in a database, read again when they change."""
    from limen.admin.repository import Repository  # its libraries load only when it is used
    from limen.admin.watcher import Watcher

    reports, repository = Reports(use_rules), Repository(url)
    watcher = Watcher(repository, reports.use, lambda clients: None, on_error=reports.report, on_look=looked)
    return LoadedSource(watcher, repository.close)
