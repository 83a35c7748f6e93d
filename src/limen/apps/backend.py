"""What every deciding process runs behind its doors: the limiter, the rules that it follows, and its metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from limen.adapters.identity import ApiKeyIdentity
from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.admin.api_keys import Secrets
from limen.admin.counting import Counting
from limen.admin.directory import ClientRecord
from limen.admin.hints import hints_for
from limen.admin.records import Gateway
from limen.apps.following import Following
from limen.apps.membership import Membership, this_process
from limen.apps.repositories import repository_for
from limen.apps.sampling import Sampling, sampler_for
from limen.apps.saying import Saying
from limen.apps.settings import Shared
from limen.apps.store_look import warn_of_store
from limen.engine.aio import AsyncLimiter
from limen.engine.sampled import SampledLimiter
from limen.errors import LimenError, RulesUnavailable
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Standing
from limen.sim.pseudonyms import Pseudonyms

__all__ = ["Backend"]

log = logging.getLogger("limen")


class Backend:
    """A limiter that follows a rules database. Use it as `async with Backend(settings) as backend:`.

    Entering succeeds when the store is away, and when the rules database is. It then decides by the rules that were in
    force when it was there; where none were saved it has no limiter yet, and takes over by itself when rules come.

    Args:
        settings: what is set.
        kind: what this process is: `gateway`, `service` or `up`.

    Attributes:
        metrics, repository, following: its parts.
        draining: whether it was told to end, and traffic should go elsewhere.
    """

    def __init__(self, settings: Shared, kind: str = "gateway") -> None:
        self.settings = settings
        self.metrics = PrometheusObserver()
        self.repository = repository_for(settings)
        self.draining = False
        self._process = this_process(kind)
        self._limiter: AsyncLimiter | None = None
        self._sampling: Sampling | None = None
        self._is_open = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.following = Following(
            settings, self.repository, self.metrics, on_rules=self._use_rules, on_look=self._looked
        )
        self.saying = Saying(settings, self.repository, self._use_standing)
        self._counting = Counting(
            self.repository.watches,
            self._process.id,
            self.metrics.counted,
            lambda: self.following.watcher.revision,
            self._count_later,
        )
        self._heart = Membership(
            self.repository.presence,
            self._describe,
            lambda: self._limiter,
            self._follow_revision,
            self._follow_standing,
            self.metrics.gateways_behind,
        ).heart
        self._hints = hints_for(settings.rules_db, self._hint)

    async def __aenter__(self) -> Self:
        try:
            if await self._find():
                await self._open()
            else:
                self.trial()
                self._do(self._open_later(), "limen wait for rules")
        except BaseException:
            await self.repository.close()
            raise
        self.following.watcher.start()
        self.saying.watcher.start()
        self._heart.start()
        if self._hints is not None:
            self._hints.start()
        self._counting.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._counting.stop()
        if self._sampling is not None:
            await self._sampling.stop()
        if self._hints is not None:
            await self._hints.stop()
        await self._heart.stop()
        await self.following.watcher.stop()
        await self.saying.watcher.stop()
        if self._limiter is not None:
            await self._limiter.close()
        await self.repository.close()

    @property
    def limiter(self) -> AsyncLimiter:
        """Who decides.

        Raises:
            RulesUnavailable: nobody yet, for there are no rules.
        """
        if self._limiter is None or not self.is_open:
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
        """Follow a change of rules, clients or drills at once, as far as it can be followed."""
        self._heart.poke()
        await self.following.catch_up()

    async def look(self) -> None:
        """Look for other rules and for what was said of single clients, as after a stop of this process."""
        await self.following.watcher.once()
        await self.saying.watcher.once()

    def drain(self) -> None:
        """Ask for no more traffic: this process is about to end."""
        self.draining = True
        self._heart.poke()

    def find(self, api_key: str) -> ClientRecord | None:
        """Who an API key is, by the newest list of clients."""
        return self.following.directory.find(api_key)

    def identify(self) -> ApiKeyIdentity:
        """How requests are identified."""
        return ApiKeyIdentity(self, self.settings.api_key_header)

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether this process should get traffic. It should while the store is away: it decides locally."""
        why, watcher = self._why_not_ready(), self.following.watcher
        details = {
            **({"status": "draining"} if self.draining else {}),
            **({"why": why} if why else {}),
            "rules_revision": watcher.revision,
            "rules_error": None if watcher.last_error is None else str(watcher.last_error),
            "rules_stale": watcher.stale,
            "store": self._store_state,
        }
        return not why, details

    def render_metrics(self) -> tuple[bytes, str]:
        """What Prometheus scrapes."""
        self.following.tell_freshness()
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

    def _describe(self) -> Gateway:
        """What this process tells of itself to those who run on the same rules."""
        return self._process._replace(
            revision=self.following.watcher.revision,
            state="draining" if self.draining else "ready" if self.is_open else "waiting",
            store=self._store_state,
            drill_percent=0.0 if self._limiter is None else self._limiter.drilling,
        )

    async def _find(self) -> bool:
        """Something to begin with. Both are asked for at once, so that a database that is away costs one wait."""
        saying = asyncio.create_task(self.saying.find(), name="limen find what was said")
        try:
            found = await self.following.find()
            await saying
        finally:
            saying.cancel()
        return found

    async def _open_later(self) -> None:
        await self.following.watcher.loaded()
        try:
            await self._open()
        except LimenError:
            log.exception("there are rules, and no way to decide by them")

    async def _open(self) -> None:
        watcher = self.following.watcher
        assert watcher.secrets is not None, "they come with the rules"
        limiter = self._limiter = self._make_limiter(watcher.secrets)
        limiter.use_rules(self.following.ruleset)
        limiter.use_standing(self.saying.standing)
        limiter.follow(self.look, self.settings.poll_s)
        await limiter.start()
        self.metrics.watch(limiter)
        self._do(self.metrics.keep_watch(), "limen look at itself")
        self._sample(limiter, watcher.secrets)
        self._is_open.set()
        self._do(warn_of_store(self.settings.store), "limen look at the store")

    def _make_limiter(self, secrets: Secrets) -> AsyncLimiter:
        named: dict[str, Any] = {
            "secret": secrets.current,
            "previous_secret": secrets.previous,
            "gateways": self.settings.gateways,
            "deadline_ms": self.settings.deadline_ms,
            "observer": self.metrics,
        }
        if not self.settings.sample_percent:
            return AsyncLimiter(self.settings.store, **named)
        sampler = sampler_for(Pseudonyms(secrets.current), self.settings.sample_percent)
        return SampledLimiter(sampler, self.settings.store, **named)

    def _sample(self, limiter: AsyncLimiter, secrets: Secrets) -> None:
        """Leave a sample of what it decides in the database."""
        if isinstance(limiter, SampledLimiter):
            keep_s, names = self.settings.sample_hours * 3600, Pseudonyms(secrets.current)
            samples, every_s = self.repository.samples, self.settings.poll_s
            self._sampling = Sampling(limiter, samples, self._process.id, names, keep_s, every_s)
            self._sampling.start()

    def _do(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    @staticmethod
    def _count_later(error: Exception) -> None:
        """What could not be told is told the next time; the heart says already that the database is away."""
        log.debug("how much was denied could not be told: %s", error)

    def _use_rules(self, ruleset: RuleSet) -> None:
        self._counting.poke()
        if self._limiter is not None:
            self._limiter.use_rules(ruleset)

    def _use_standing(self, standing: Standing) -> None:
        if self._limiter is not None:
            self._limiter.use_standing(standing)

    def _looked(self) -> None:
        if self._limiter is not None:
            self._limiter.looked()

    def _hint(self) -> None:
        """Something changed, says the database."""
        self.following.watcher.poke()
        self.saying.watcher.poke()

    def _follow_standing(self, standing: int) -> None:
        if standing != self.saying.watcher.seen:
            self.saying.watcher.poke()

    def _follow_revision(self, revision: int) -> None:
        if revision != self.following.watcher.revision:
            self.following.watcher.poke()
