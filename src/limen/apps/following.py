"""The rules of one process: those of the database as it is now, or was, and what is said about how old they are."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.admin.api_keys import Secrets
from limen.admin.background import in_background
from limen.admin.directory import Directory
from limen.admin.last_good import LastGood
from limen.admin.repository import Repository
from limen.admin.watcher import Problems, Watcher
from limen.apps.seldom import Seldom
from limen.apps.settings import Shared
from limen.errors import LimenError, MissingExtra, RuleError, RulesUnavailable, SettingsError
from limen.rules.carrying import can_settle, settled
from limen.rules.ruleset import RuleSet

__all__ = ["Following"]

log = logging.getLogger("limen")

FIRST_LOOK_S = 2.0
"""How long a start waits for the rules database when there are rules that were saved on this machine."""


class Following:
    """Follows a rules database, from the last good rules on disk where the database is away at the start.

    Args:
        settings: what is set.
        repository: the database.
        metrics: are told how old the rules are.
        on_rules: is given each new set of rules.
        on_look: is told after every look, failed ones too.

    Attributes:
        ruleset, directory: what is in force; empty before the first load.
        watcher: who looks.
    """

    def __init__(
        self,
        settings: Shared,
        repository: Repository,
        metrics: PrometheusObserver,
        *,
        on_rules: Callable[[RuleSet], None],
        on_look: Callable[[], None],
    ) -> None:
        self.ruleset = RuleSet()
        self.directory = Directory()
        self._disk = None if settings.state is None else LastGood(settings.state, settings.rules_db)
        self._metrics = metrics
        self._on_rules = on_rules
        self._on_look = on_look
        self._has_rules = False
        self._first_secrets: Secrets | None = None
        self._words = Seldom(log)
        self._settling: asyncio.Task[None] | None = None
        self.watcher = Watcher(
            repository,
            self._use_rules,
            self._use_clients,
            on_error=self._complain,
            interval_s=settings.poll_s,
            on_look=self._looked,
            disk=self._disk,
            on_problems=self._tell_problems,
        )

    async def find(self) -> bool:
        """Rules to begin with: those of the database, or those that were saved. False when there are none.

        Raises:
            SettingsError: the database cannot be reached in that way, ever.
        """
        patience_s = FIRST_LOOK_S if self._disk is not None and self._disk.is_there else None
        try:
            async with asyncio.timeout(patience_s):
                await self.watcher.load_now()
        except (SettingsError, MissingExtra):
            raise
        except Exception as error:  # noqa: BLE001 - whatever is in the database, the last good rules are better than none
            self.watcher.last_error = error
            return await self._find_saved(str(error) or "the rules database does not answer")
        return True

    async def catch_up(self) -> None:
        """Follow a change at once. One that cannot be followed is reported, and tried again at the next look."""
        try:
            await self.watcher.load_now()
        except LimenError as error:
            self._complain(error)

    def tell_freshness(self) -> None:
        """Show how old the rules are."""
        if self.watcher.last_look is not None:
            self._metrics.rules_checked(self.watcher.last_look)
        self._metrics.rules_stale(self.watcher.stale)

    async def _find_saved(self, why: str) -> bool:
        try:
            await self.watcher.recall()
        except LimenError as error:
            log.warning("%s; %s. Until there are rules every request is answered with 503", why, error)
            return False
        log.warning("%s; deciding by the rules that were saved, revision %d", why, self.watcher.revision)
        return True

    def _use_rules(self, ruleset: RuleSet) -> None:
        self._on_rules(ruleset)
        self.ruleset = ruleset
        self._has_rules = True
        self._metrics.rules_loaded(ruleset.revision, time.time())
        if not self.watcher.problems:
            self._words.over("rules")
        log.info("rules revision %d is in force: %d rules", ruleset.revision, len(ruleset.rules))

    def _tell_problems(self, problems: Problems) -> None:
        self._metrics.rules_broken(problems)
        if not problems:
            self._words.over("rules", "all rules of the database are in force again")

    def _use_clients(self, directory: Directory) -> None:
        self.directory = directory
        self._first_secrets = self._first_secrets or self.watcher.secrets
        if self.watcher.secrets != self._first_secrets:
            self._words.warning("secret", "the database has another secret than before; start this process anew")

    async def _settle(self, now_us: int) -> None:
        """Buckets whose limit changed have followed by now: they are plain again."""
        moving = self.ruleset
        ruleset = await in_background(settled, moving, now_us)
        if self.ruleset is moving:
            self._on_rules(ruleset)
            self.ruleset = ruleset

    def _looked(self) -> None:
        self._on_look()
        now_us = time.time_ns() // 1000
        if can_settle(self.ruleset, now_us) and (self._settling is None or self._settling.done()):
            self._settling = asyncio.create_task(self._settle(now_us), name="limen settle")
        self.tell_freshness()
        if self.watcher.stale and self._has_rules:
            self._words.warning("age", f"the rules may be old: {self.watcher.last_error}")
        else:
            self._words.over("age", "the rules are those of the database again")

    def _complain(self, error: Exception) -> None:
        if not isinstance(error, RulesUnavailable):
            self._metrics.rules_refused()
        state = "the rules stay as they were" if self._has_rules else "there are no rules yet"
        if isinstance(error, RuleError) and self._has_rules:
            state = "rules that cannot be read stay as they were"
        trace = None if isinstance(error, LimenError) else error
        self._words.warning("rules", f"{state}: {error}", trace)
