"""The guard of a service, put together: who judges a change, who approves it, and who watches it afterwards."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from limen.admin.guard import Guard, Judge
from limen.admin.guard_settings import GuardSettings
from limen.admin.proposing import Proposing
from limen.admin.service import AdminService
from limen.admin.watch_keeper import WatchKeeper
from limen.apps.judging import Judging
from limen.apps.seldom import Seldom
from limen.errors import LimenError

if TYPE_CHECKING:
    from limen.admin.change import Change
    from limen.admin.repository import Repository
    from limen.admin.review import Review
    from limen.apps.backend import Backend

__all__ = ["Guarding", "guard_for"]

log = logging.getLogger("limen")


def guard_for(settings: GuardSettings, repository: Repository, judge: Judge | None = None) -> Guard:
    """A guard that judges by the sample in a rules database, and has what goes in watched."""
    seconds = round(settings.watch_minutes * 60)

    async def enter(change: Change, review: Review) -> None:
        await repository.watches.begin(change, review, seconds)

    return Guard(settings, judge or Judging(repository), enter)


class Guarding:
    """What an operator can do in a service, with a guard before it and a watch after it.

    Use it as `async with Guarding(backend) as guarding:`.

    Attributes:
        service, proposing: what an operator can do.
        repository: the rules database.
    """

    def __init__(self, backend: Backend) -> None:
        settings, self.repository = backend.settings.guard, backend.repository
        guard = guard_for(settings, self.repository)
        self.service = AdminService(self.repository, changed=backend.catch_up, guard=guard)
        self.proposing = Proposing(self.repository, self.service, guard, settings.percent)
        self._words = Seldom(log)
        self._keeper = WatchKeeper(self.repository.watches, self.service, guard, settings.percent, self._complain)

    async def __aenter__(self) -> Self:
        self._keeper.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._keeper.stop()

    def _complain(self, error: Exception) -> None:
        trace = None if isinstance(error, LimenError) else error
        self._words.warning("watch", f"changes of rules are not watched: {error}", trace)
