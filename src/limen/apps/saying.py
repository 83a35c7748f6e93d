"""What was said of single clients, as one process knows it: that of the database as it is now, or was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from limen.admin.repository import Repository
from limen.admin.saved_standing import StandingFile
from limen.admin.standing_watcher import StandingWatcher
from limen.apps.seldom import Seldom
from limen.apps.settings import Shared
from limen.errors import LimenError
from limen.rules.standing import Standing

__all__ = ["Saying"]

log = logging.getLogger("limen")

FIRST_LOOK_S = 2.0
"""How long a start waits for the database; then what was saved on this machine counts until it answers."""


class Saying:
    """Follows blocks, flags and limits of single clients.

    Args:
        settings: what is set.
        repository: the rules database.
        on_standing: is given each new standing.

    Attributes:
        watcher: who looks.
    """

    def __init__(self, settings: Shared, repository: Repository, on_standing: Callable[[Standing], None]) -> None:
        self._words = Seldom(log)
        self.watcher = StandingWatcher(
            repository.standing,
            on_standing,
            on_problem=self._mention,
            on_error=self._complain,
            interval_s=settings.poll_s,
            disk=None if settings.state is None else StandingFile(settings.state, settings.rules_db),
        )

    @property
    def standing(self) -> Standing:
        """What is in force."""
        return self.watcher.standing

    async def find(self) -> None:
        """Something to begin with: what the database says, or what was saved. Nothing, where neither is there."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                await self.watcher.load_now()
        except Exception as error:  # noqa: BLE001 - whatever lies there, rules decide also without it
            why = str(error) or "the rules database does not answer"
            await self._find_saved(why)

    async def catch_up(self) -> None:
        """Follow a change at once. One that cannot be followed is reported, and tried again at the next look."""
        try:
            await self.watcher.load_now()
        except LimenError as error:
            self._complain(error)

    async def _find_saved(self, why: str) -> None:
        try:
            await self.watcher.recall()
        except LimenError as error:
            log.warning("%s; %s. Until the database answers nobody is blocked", why, error)
        else:
            log.warning("%s; blocks and limits of single clients are those that were saved", why)

    def _mention(self, problem: str) -> None:
        self._words.warning("row", f"what somebody wrote into the rules database counts as nothing: {problem}")

    def _complain(self, error: Exception) -> None:
        trace = None if isinstance(error, LimenError) else error
        self._words.warning("standing", f"blocks and limits of single clients stay as they were: {error}", trace)
