"""What every deciding process runs behind its doors: the limiter, the rules that it follows, and its metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from types import TracebackType
from typing import Any, Self

from limen.adapters.identity import ApiKeyIdentity
from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.admin.directory import ClientRecord, Directory
from limen.admin.watcher import Watcher
from limen.apps.repositories import repository_for
from limen.apps.settings import Shared
from limen.apps.store_look import warn_of_store
from limen.engine.aio import AsyncLimiter
from limen.errors import LimenError
from limen.rules.ruleset import RuleSet

__all__ = ["Backend"]

log = logging.getLogger("limen")


class Backend:
    """A limiter that follows a rules database. Use it as `async with Backend(settings) as backend:`.

    Entering succeeds when the store is away. It fails when the rules database is: without rules there is nothing to
    decide by.

    Attributes:
        limiter, repository, watcher, metrics: its parts, once entered.
    """

    limiter: AsyncLimiter
    watcher: Watcher

    def __init__(self, settings: Shared) -> None:
        self.settings = settings
        self.metrics = PrometheusObserver()
        self.repository = repository_for(settings)
        self._directory = Directory()
        self._look: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        settings = self.settings
        try:
            secrets = await self.repository.secrets()
            self.limiter = AsyncLimiter(
                settings.store,
                secret=secrets.current,
                previous_secret=secrets.previous,
                gateways=settings.gateways,
                deadline_ms=settings.deadline_ms,
                observer=self.metrics,
            )
            self.watcher = Watcher(
                self.repository,
                self._use_rules,
                self._use_clients,
                on_error=self._complain,
                interval_s=settings.poll_s,
            )
            await self.watcher.load_now()
        except BaseException:
            await self.repository.close()
            raise
        await self.limiter.start()
        self.watcher.start()
        self._look = asyncio.create_task(warn_of_store(settings.store), name="limen look at the store")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])
        await self.watcher.stop()
        await self.limiter.close()
        await self.repository.close()

    async def catch_up(self) -> None:
        """Follow a change at once. One that cannot be followed is reported, and tried again at the next look."""
        try:
            await self.watcher.load_now()
        except LimenError as error:
            self._complain(error)

    def find(self, api_key: str) -> ClientRecord | None:
        """Who an API key is, by the newest list of clients."""
        return self._directory.find(api_key)

    def identify(self) -> ApiKeyIdentity:
        """How requests are identified."""
        return ApiKeyIdentity(self, self.settings.api_key_header)

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether this process should get traffic. It should while the store is away: it decides locally."""
        error = self.watcher.last_error
        details = {
            "rules_revision": self.watcher.revision,
            "rules_error": None if error is None else str(error),
            "store": self.limiter.store_state,
        }
        return self.watcher.last_reload is not None, details

    def render_metrics(self) -> tuple[bytes, str]:
        """What Prometheus scrapes."""
        self.metrics.breaker_state(self.limiter.store_state == "down")
        return self.metrics.render(), self.metrics.content_type

    def _use_rules(self, ruleset: RuleSet) -> None:
        self.limiter.use_rules(ruleset)
        self.metrics.rules_loaded(ruleset.revision, time.time())
        log.info("rules revision %d is in force: %d rules", ruleset.revision, len(ruleset.rules))

    def _use_clients(self, directory: Directory) -> None:
        self._directory = directory

    def _complain(self, error: Exception) -> None:
        self.metrics.rules_refused()
        log.warning("the rules stay as they were: %s", error, exc_info=not isinstance(error, LimenError))
