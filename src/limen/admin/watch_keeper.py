"""Compares changes with what they were predicted to do, and takes back those that do much more harm than that.

Every service does that; the row of the watch sees to it that one of them acts, and once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from limen.admin.precondition import Precondition
from limen.admin.records import Signature
from limen.admin.repeating import Repeating
from limen.admin.watches import WATCH, Watch, Watches, finish
from limen.admin.watching import Seen, newly_denied, tolerated
from limen.errors import Conflict, LimenError, Unavailable

if TYPE_CHECKING:
    from limen.admin.change import Change
    from limen.admin.guard import Reviewing
    from limen.admin.records import Signature as By
    from limen.admin.repository import Repository
    from limen.admin.review import Review
    from limen.admin.service import AdminService
    from limen.rules.ruleset import RuleSet

__all__ = ["EVERY_S", "WatchKeeper", "keep"]

EVERY_S = 5.0
JITTER = 0.2

log = logging.getLogger("limen.rules")


class WatchKeeper(Repeating):
    """See the module.

    Args:
        watches: what is watched.
        service: takes a change back.
        guard: says what that will do; it does not hold it up.
        percent: points more than predicted that are tolerated.
        on_error: is told of every failure; must not raise.
        interval_s: seconds between two looks, give or take a fifth.
    """

    def __init__(
        self,
        watches: Watches,
        service: AdminService,
        guard: Reviewing,
        percent: float,
        on_error: Callable[[Exception], None],
        interval_s: float = EVERY_S,
    ) -> None:
        super().__init__(JITTER)
        self._watches = watches
        self._service = service
        self._guard = guard
        self._percent = percent
        self._on_error = on_error
        self._interval_s = interval_s

    async def once(self) -> None:
        try:
            now, running = await self._watches.running()
            for watch in running:
                await self._look(watch, now)
        except Exception as error:  # noqa: BLE001 - whatever is in the database, the next look may find it mended
            self._on_error(error)

    def pause_s(self) -> float:
        return self._interval_s

    async def _look(self, watch: Watch, now: int) -> None:
        before, since = await self._watches.tallies(watch)
        seen = newly_denied(before, since, watch.denied_before)
        if since.requests != watch.requests:
            await self._watches.note(watch.revision, since.requests, since.touched, seen and seen.ratio)
        if seen is not None and seen.at_least > tolerated(watch.predicted, self._percent):
            await self._take_back(watch, seen, since.requests)
        elif now >= watch.ends:
            await self._watches.end(watch.revision, "passed", _passed(seen))

    async def _take_back(self, watch: Watch, seen: Seen, requests: int) -> None:
        reason = (
            f"revision {watch.revision} denies {_share(seen.ratio)} of {requests} requests newly,"
            f" and {_share(watch.predicted)} was predicted"
        )
        conditions = {rule: _still(version) for rule, version in watch.versions.items()}
        try:
            await self._service.edit(
                watch.before,
                Signature(WATCH, "approver", reason, confirmed=True),
                action="rollback",
                conditions=conditions,
                guard=_Taking(self._guard, watch.revision, reason),
            )
        except Conflict as error:
            await self._watches.end(watch.revision, "superseded", str(error))
        except Unavailable:
            raise
        except LimenError as error:
            log.error("%s; it cannot be taken back: %s", reason, error)  # noqa: TRY400 - the sentence says it all
            await self._watches.end(watch.revision, "failed", f"it cannot be taken back: {error}")
        else:
            log.warning("%s; it was taken back", reason)


class _Taking:
    """Lets a rollback through that ends a watch, and sees to it that only one does."""

    def __init__(self, guard: Reviewing, revision: int, reason: str) -> None:
        self._guard = guard
        self._revision = revision
        self._reason = reason

    async def look(self, before: RuleSet, after: RuleSet, by: By, *, action: str = "put") -> Review:
        return await self._guard.look(before, after, by, action=action)

    async def review(self, before: RuleSet, after: RuleSet, by: By, *, action: str = "put") -> Review:
        return await self.look(before, after, by, action=action)

    async def enter(self, change: Change, review: Review) -> None:
        if not await finish(change, self._revision, "rolled_back", self._reason):
            raise Conflict("nobody watches this change any more", None)
        await self._guard.enter(change, review)


async def keep(repository: Repository, revision: int, by: Signature) -> bool:
    """Watch a change no more, whatever it does; False when nobody does."""
    async with repository.change(by=by, counter=None) as change:
        kept = await finish(change, revision, "kept", f"{by.author}: {by.reason}" if by.reason else by.author)
        if kept:
            change.record("watch.end", f"revision:{revision}")
    return kept


def _still(version: int | None) -> Precondition:
    return Precondition(none_of="*") if version is None else Precondition(any_of={version})


def _passed(seen: Seen | None) -> str:
    return "too few requests to tell" if seen is None else f"{_share(seen.ratio)} newly denied"


def _share(ratio: float) -> str:
    return f"{ratio * 100:.2f} %"
