"""What every deciding process runs behind its doors: the limiter, the rules that it follows, and its metrics."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from limen.adapters.identity import ApiKeyIdentity
from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.admin.api_keys import Secrets
from limen.admin.directory import ClientRecord, Directory
from limen.admin.heart import Heart
from limen.admin.last_good import LastGood
from limen.admin.records import Gateway, Heard
from limen.admin.watcher import Watcher
from limen.apps.rehearsal import Rehearsal
from limen.apps.repositories import repository_for
from limen.apps.seldom import Seldom
from limen.apps.settings import Shared
from limen.apps.store_look import warn_of_store
from limen.engine.aio import AsyncLimiter
from limen.errors import LimenError, MissingExtra, RulesUnavailable, SettingsError
from limen.rules.ruleset import RuleSet

__all__ = ["Backend"]

log = logging.getLogger("limen")

FIRST_LOOK_S = 2.0
"""How long a start waits for the rules database when there are rules that were saved on this machine."""


class Backend:
    """A limiter that follows a rules database. Use it as `async with Backend(settings) as backend:`.

    Entering succeeds when the store is away, and when the rules database is. It then decides by the rules that were in
    force when it was there; where none were saved it has no limiter yet, and takes over by itself when rules come.

    Args:
        settings: what is set.
        kind: what this process is: `gateway`, `service` or `up`.

    Attributes:
        metrics, repository, watcher: its parts; watcher once entered.
        draining: whether it was told to end, and traffic should go elsewhere.
    """

    watcher: Watcher

    def __init__(self, settings: Shared, kind: str = "gateway") -> None:
        self.settings = settings
        self.metrics = PrometheusObserver()
        self.repository = repository_for(settings)
        self.draining = False
        self._started = Gateway(uuid4().hex, socket.gethostname(), os.getpid(), kind, int(time.time()), 0, "", "", 0)
        self._directory = Directory()
        self._ruleset = RuleSet()
        self._limiter: AsyncLimiter | None = None
        self._is_open = asyncio.Event()
        self._secrets: Secrets | None = None
        self._known_revision = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._words = Seldom(log)
        self._rehearsal = Rehearsal()
        self._heart = Heart(self.repository.presence, self._describe, self._hear, self._miss_a_beat)

    async def __aenter__(self) -> Self:
        settings, disk = self.settings, self._disk()
        self.watcher = Watcher(
            self.repository,
            self._use_rules,
            self._use_clients,
            on_error=self._complain,
            interval_s=settings.poll_s,
            on_look=self._looked,
            disk=disk,
        )
        try:
            if await self._find_rules(FIRST_LOOK_S if disk is not None and disk.is_there else None):
                await self._open()
            else:
                self.trial()
                self._do(self._open_later(), "limen wait for rules")
        except BaseException:
            await self.repository.close()
            raise
        self.watcher.start()
        self._heart.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._heart.stop()
        await self.watcher.stop()
        if self._limiter is not None:
            await self._limiter.close()
        await self.repository.close()

    @property
    def limiter(self) -> AsyncLimiter:
        """Who decides.

        Raises:
            RulesUnavailable: nobody yet, for there are no rules.
        """
        if self._limiter is None or not self._is_open.is_set():
            raise RulesUnavailable("no rules have been loaded since this process was started")
        return self._limiter

    @property
    def is_open(self) -> bool:
        """Whether there are rules to decide by, and the store was asked once."""
        return self._is_open.is_set()

    def trial(self) -> AsyncLimiter:
        """A limiter that knows nothing and asks nobody, to find out whether the settings can work.

        Raises:
            UsageError: they cannot.
        """
        return self._make_limiter(Secrets(b"nobody's buckets"))

    async def catch_up(self) -> None:
        """Follow a change at once. One that cannot be followed is reported, and tried again at the next look."""
        self._heart.poke()
        try:
            await self.watcher.load_now()
        except LimenError as error:
            self._complain(error)

    def drain(self) -> None:
        """Ask for no more traffic: this process is about to end."""
        self.draining = True
        self._heart.poke()

    def find(self, api_key: str) -> ClientRecord | None:
        """Who an API key is, by the newest list of clients."""
        return self._directory.find(api_key)

    def identify(self) -> ApiKeyIdentity:
        """How requests are identified."""
        return ApiKeyIdentity(self, self.settings.api_key_header)

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether this process should get traffic. It should while the store is away: it decides locally."""
        why = self._why_not_ready()
        error = self.watcher.last_error
        details = {
            **({"status": "draining"} if self.draining else {}),
            **({"why": why} if why else {}),
            "rules_revision": self.watcher.revision,
            "rules_error": None if error is None else str(error),
            "rules_stale": self.watcher.stale,
            "store": self._store_state,
        }
        return not why, details

    def render_metrics(self) -> tuple[bytes, str]:
        """What Prometheus scrapes."""
        self._tell_freshness()
        return self.metrics.render(), self.metrics.content_type

    def _why_not_ready(self) -> str:
        if self.draining:
            return "this process was told to end"
        if self._limiter is None:
            return "no rules have been loaded yet"
        return "" if self.is_open else "the store has not been asked yet"

    @property
    def _store_state(self) -> str:
        return "unknown" if self._limiter is None else self._limiter.store_state

    def _disk(self) -> LastGood | None:
        state = self.settings.state
        return None if state is None else LastGood(state, self.settings.rules_db)

    async def _find_rules(self, patience_s: float | None) -> bool:
        """Rules to begin with: those of the database, or those that were saved."""
        try:
            async with asyncio.timeout(patience_s):
                await self.watcher.load_now()
        except (SettingsError, MissingExtra):
            raise
        except Exception as error:  # noqa: BLE001 - whatever is in the database, the last good rules are better than none
            self.watcher.last_error = error
            return await self._find_saved(str(error) or "the rules database does not answer")
        return True

    async def _find_saved(self, why: str) -> bool:
        try:
            await self.watcher.recall()
        except LimenError as error:
            log.warning("%s; %s. Until there are rules every request is answered with 503", why, error)
            return False
        log.warning("%s; deciding by the rules that were saved, revision %d", why, self.watcher.revision)
        return True

    async def _open_later(self) -> None:
        await self.watcher.loaded()
        try:
            await self._open()
        except LimenError:
            log.exception("there are rules, and no way to decide by them")

    async def _open(self) -> None:
        assert self.watcher.secrets is not None, "they come with the rules"
        self._secrets = self.watcher.secrets
        limiter = self._limiter = self._make_limiter(self._secrets)
        limiter.use_rules(self._ruleset)
        limiter.follow(self.watcher.once, self.settings.poll_s)
        await limiter.start()
        self.metrics.watch(limiter)
        self._do(self.metrics.keep_watch(), "limen look at itself")
        self._is_open.set()
        self._do(warn_of_store(self.settings.store), "limen look at the store")

    def _make_limiter(self, secrets: Secrets) -> AsyncLimiter:
        return AsyncLimiter(
            self.settings.store,
            secret=secrets.current,
            previous_secret=secrets.previous,
            gateways=self.settings.gateways,
            deadline_ms=self.settings.deadline_ms,
            observer=self.metrics,
        )

    def _do(self, work: Any, name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def _use_rules(self, ruleset: RuleSet) -> None:
        self._ruleset = ruleset
        if self._limiter is not None:
            self._limiter.use_rules(ruleset)
        self.metrics.rules_loaded(ruleset.revision, time.time())
        self._words.over("rules")
        log.info("rules revision %d is in force: %d rules", ruleset.revision, len(ruleset.rules))

    def _use_clients(self, directory: Directory) -> None:
        self._directory = directory
        if self._secrets is not None and self.watcher.secrets != self._secrets:
            self._words.warning("secret", "the database has another secret than before; start this process anew")

    def _looked(self) -> None:
        if self._limiter is not None:
            self._limiter.looked()
        self._tell_freshness()
        if self.watcher.stale and self.is_open:
            self._words.warning("age", f"the rules may be old: {self.watcher.last_error}")
        else:
            self._words.over("age", "the rules are those of the database again")

    def _tell_freshness(self) -> None:
        if self.watcher.last_look is not None:
            self.metrics.rules_checked(self.watcher.last_look)
        self.metrics.rules_stale(self.watcher.stale)

    def _complain(self, error: Exception) -> None:
        if not isinstance(error, RulesUnavailable):
            self.metrics.rules_refused()
        trace = None if isinstance(error, LimenError) else error
        state = "the rules stay as they were" if self.is_open else "there are no rules yet"
        self._words.warning("rules", f"{state}: {error}", trace)

    def _describe(self) -> Gateway:
        """What this process tells of itself to those who run on the same rules."""
        state = "draining" if self.draining else "ready" if self.is_open else "waiting"
        drilling = 0.0 if self._limiter is None else self._limiter.drilling
        return self._started._replace(
            revision=self.watcher.revision, state=state, store=self._store_state, drill_percent=drilling
        )

    def _hear(self, heard: Heard) -> None:
        self._words.over("heart", "the rules database is told again that this process runs")
        if heard.revision not in (self._known_revision, self.watcher.revision):
            self.watcher.poke()
        self._known_revision = heard.revision
        if self._limiter is not None:
            self._limiter.fleet.heard(heard.alive, heard.most, "database")
            self._rehearsal.follow(self._limiter, heard.drill, heard.drill_s)

    def _miss_a_beat(self, error: Exception) -> None:
        trace = None if isinstance(error, LimenError) else error
        self._words.warning("heart", f"the rules database is not told that this process runs: {error}", trace)
