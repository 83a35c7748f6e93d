"""Keeps a process at what was said of single clients: reads what changed, and swaps the whole in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from limen.admin.polling import Poller, ignore_look
from limen.admin.saved_standing import SavedStanding
from limen.admin.standing_records import Mark, StoredStanding, merged
from limen.admin.standing_table import Changes
from limen.errors import RulesUnavailable
from limen.rules.standing import Standing

__all__ = ["StandingDisk", "StandingWatcher"]

log = logging.getLogger("limen.rules")

TIDY_S = 300.0
"""How often what has ended is taken out of memory."""
SAVE_S = 60.0
"""A standing is saved no more often than this, unless it is small."""
SMALL = 1000


class StandingSource(Protocol):
    """What a watcher needs of `limen.admin.standing_table.StandingTable`."""

    async def mark(self) -> Mark: ...
    async def changes(self, seen: int, now: int) -> Changes: ...


class StandingDisk(Protocol):
    """Where it is saved, such as `limen.admin.saved_standing.StandingFile`. Both raise `RulesUnavailable`."""

    def save(self, saved: SavedStanding) -> None: ...
    def load(self) -> SavedStanding: ...


class StandingWatcher(Poller[int]):
    """Asks for the number of changes every few seconds, and for what changed when it is another one.

    A row that cannot be read says nothing, and is told to `on_problem`; all others count.

    Args:
        table: where it lies.
        on_standing: is given each new standing.
        on_problem: is told of rows that cannot be read.
        on_error: is told of every failure.
        interval_s: seconds between two looks, give or take a tenth.
        now: Unix time in seconds.
        disk: where it is saved, for a start without the database.

    Attributes:
        standing: what is in force.
        seen: how many changes are in it.
    """

    def __init__(
        self,
        table: StandingSource,
        on_standing: Callable[[Standing], None],
        *,
        on_problem: Callable[[str], None],
        on_error: Callable[[Exception], None],
        interval_s: float = 10.0,
        now: Callable[[], float] = time.time,
        on_look: Callable[[], None] = ignore_look,
        disk: StandingDisk | None = None,
    ) -> None:
        super().__init__(interval_s, on_error, now, on_look)
        self._table = table
        self._on_standing = on_standing
        self._on_problem = on_problem
        self._disk = disk
        self._disk_error = ""
        self._tidied = self._saved_at = -TIDY_S
        self._unsaved = False
        self.standing = Standing()
        self.seen = 0

    async def look(self) -> int:
        return (await self._table.mark()).standing

    async def load(self) -> int:
        now = self._now()
        found = await self._table.changes(self.seen, int(now))
        before = Standing() if found.is_all else self.standing
        # In a thread: a hundred thousand rows must not hold up requests.
        after, problems = await asyncio.to_thread(self._merge, before, found.rows, now)
        for problem in problems:
            self._on_problem(problem)
        self._put_in_force(after, found.mark.standing)
        self._unsaved = self.seen > 0  # else nothing was ever said
        if self._unsaved:
            await self._save_in_time()
        return found.mark.standing

    async def once(self) -> None:
        await super().once()
        if self._unsaved:
            await self._save_in_time()

    async def recall(self) -> None:
        """Put in force what was saved last, and go on from there.

        Raises:
            RulesUnavailable: nothing was, or it cannot be used.
        """
        if self._disk is None:
            raise RulesUnavailable("nothing is saved on this machine")
        saved = await asyncio.to_thread(self._disk.load)
        self._put_in_force(saved.standing.without_ended(self._now()), saved.seen)

    def _merge(self, before: Standing, rows: StoredStanding, now: float) -> tuple[Standing, list[str]]:
        if now - self._tidied > TIDY_S:
            self._tidied = now
            before = before.without_ended(now)
        after, problems = merged(before, rows, now)
        after.count()  # here: who asks for it later finds it counted
        return after, problems

    def _put_in_force(self, standing: Standing, seen: int) -> None:
        self.standing, self.seen = standing, seen
        self._on_standing(standing)

    async def _save_in_time(self) -> None:
        """A disk that does not take it is no reason to let a blocked client in."""
        now = self._now()
        if self._disk is None or (now - self._saved_at < SAVE_S and sum(self.standing.count().values()) > SMALL):
            return
        self._saved_at, self._unsaved = now, False
        try:
            await asyncio.to_thread(self._disk.save, SavedStanding(self.seen, self.standing))
            self._disk_error = ""
        except RulesUnavailable as error:
            if str(error) != self._disk_error:
                log.warning("a start without the rules database will not know who is blocked: %s", error)
            self._disk_error = str(error)
