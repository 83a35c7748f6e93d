"""Changes that are watched, and what gateways count of them, in the rules database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.change import Change
from limen.admin.database import Database
from limen.admin.drivers import now_s, upsert
from limen.admin.review import Review
from limen.admin.schema_guard import denials, watches
from limen.admin.watching import Tally

__all__ = ["WATCH", "Watch", "Watches", "finish"]

WATCH = "watch"
"""The author of what is taken back."""
BEFORE_S = 600
"""How far back from a change what was denied counts as what was denied before."""
KEEP_S = 2 * 3600
"""Counts are kept longer than anybody watches, and than what was before that."""
FORGET_EVERY = 64
WATCHING = "watching"


class Watch(NamedTuple):
    """A change that is compared with what it was predicted to do, or was. Times are Unix times in seconds."""

    revision: int
    """In which the change went in."""
    author: str
    before: Mapping[str, Mapping[str, Any] | None]
    """The documents of the rules that it changed, as they were; None: there was none."""
    versions: Mapping[str, int | None]
    """What the change made of them; None: it deleted the rule."""
    predicted: float
    """Newly denied requests, of all: 0 to 1."""
    denied_before: float
    """Requests that were denied before, of all, by the sample that the prediction comes from."""
    started: int
    ends: int
    state: str
    """`watching`; `passed`; `kept` by somebody; `superseded` by another change; `rolled_back`; `failed` to be."""
    requests: int
    """Since the change was in force."""
    denied: int
    """Of these, by the rules that it changed."""
    seen: float | None
    """Newly denied requests, of all, as far as is known."""
    note: str


class Watches:
    """Part of a `Repository`. Every method raises `RulesUnavailable` while the database does not answer.

    Args:
        database: where the rules are.
        now: Unix time in seconds; by default the clock of the database.
    """

    def __init__(self, database: Database, now: Callable[[], float] | None = None) -> None:
        self._database = database
        self._now = now

    async def tell(self, gateway: str, number: int, revision: int, requests: int, denied: Mapping[str, int]) -> None:
        """What a process decided since it last told, by the rules of that revision. What is told again under the same
        number takes the place of what was told before.

        Each statement is for itself: a process that is stopped in the middle of it keeps nobody else from anything.
        """
        async with self._database.single() as connection:
            now = await self._time(connection)
            told = {"at": now, "revision": revision, "requests": requests, "denied": json.dumps(denied)}
            new = upsert(connection, denials, gateway=gateway, number=number, **told)
            await connection.execute(new.on_conflict_do_update(index_elements=[*denials.primary_key], set_=told))
            if number % FORGET_EVERY == 0:
                await connection.execute(delete(denials).where(denials.c.at < now - KEEP_S))

    async def running(self) -> tuple[int, tuple[Watch, ...]]:
        """(the time, what is watched now)."""
        async with self._database.reading() as connection:
            found = select(watches).where(watches.c.state == WATCHING).order_by(watches.c.revision)
            rows = await connection.execute(found)
            return await self._time(connection), tuple(_watch(row) for row in rows)

    async def recent(self, most: int = 50) -> tuple[Watch, ...]:
        """What is or was watched, the newest first."""
        async with self._database.reading() as connection:
            rows = await connection.execute(select(watches).order_by(watches.c.revision.desc()).limit(most))
            return tuple(_watch(row) for row in rows)

    async def tallies(self, watch: Watch) -> tuple[Tally, Tally]:
        """What was counted in the minutes before a change, and since, by those who have it."""
        columns = select(denials.c.revision, denials.c.requests, denials.c.denied)
        async with self._database.reading() as connection:
            rows = list(await connection.execute(columns.where(denials.c.at >= watch.started - BEFORE_S)))
        earlier = [row for row in rows if row.revision < watch.revision]
        return _tally(earlier, watch), _tally([row for row in rows if row.revision >= watch.revision], watch)

    async def note(self, revision: int, requests: int, denied: int, seen: float | None) -> None:
        """What is known of a change that is watched still."""
        values = {"requests": requests, "denied": denied, "seen": seen}
        async with self._database.single() as connection:
            await connection.execute(_running(revision).values(**values))

    async def end(self, revision: int, state: str, note: str) -> bool:
        """Watch no more; False when nobody does."""
        async with self._database.single() as connection:
            found = await connection.execute(_running(revision).values(state=state, note=note))
            return bool(found.rowcount)

    async def begin(self, change: Change, review: Review, seconds: int) -> None:
        """Watch a change, within its transaction. What is watched over the same rules is watched no more."""
        await _supersede(change, review)
        if not review.watch or review.effect is None or not seconds or change.by.author == WATCH:
            return
        found = {rule: await change.rule(rule) for rule in review.before}
        now = await self._time(change.connection)
        row = {
            "revision": change.revision,
            "author": change.by.author,
            "before": json.dumps(review.before),
            "versions": json.dumps({rule: there and there.version for rule, there in found.items()}),
            "predicted": review.effect.newly_denied_ratio,
            "denied_before": review.effect.denied_ratio_before,
            "started": now,
            "ends": now + seconds,
        }
        await change.run(insert(watches).values(**row, state=WATCHING, requests=0, denied=0, note=""))

    async def _time(self, connection: AsyncConnection) -> int:
        return int(self._now() if self._now else await now_s(connection))


async def finish(change: Change, revision: int, state: str, note: str) -> bool:
    """Watch no more, within the transaction of what follows from it; False when nobody does."""
    return bool((await change.run(_running(revision).values(state=state, note=note))).rowcount)


async def _supersede(change: Change, review: Review) -> None:
    for row in list(await change.run(select(watches).where(watches.c.state == WATCHING))):
        if review.before.keys() & _watch(row).before.keys() and change.by.author != WATCH:
            await finish(change, row.revision, "superseded", f"{change.by.author} changed the rules again")


def _running(revision: int) -> Any:
    return update(watches).where(watches.c.revision == revision, watches.c.state == WATCHING)


def _watch(row: Any) -> Watch:
    fields = {**row._mapping, "before": json.loads(row.before), "versions": json.loads(row.versions)}
    return Watch(**fields)


def _tally(rows: list[Any], watch: Watch) -> Tally:
    requests, touched, everywhere = 0, 0, 0
    for row in rows:
        requests += row.requests
        for rule, count in json.loads(row.denied).items():
            everywhere += count
            touched += count if rule in watch.before else 0
    return Tally(requests, touched, everywhere)
