"""Who decides by these rules, and which outage is rehearsed: what processes tell each other through the database.

Every process writes its row every two seconds. Alive is who was heard of within ten seconds. How many were alive at
one time is kept for each minute, so that the most within the last ten is known to those that were not there.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.database import Database
from limen.admin.drills import STORE_DOWN, DrillOrder
from limen.admin.drivers import now_s, upsert
from limen.admin.queries import read_revision
from limen.admin.records import ALIVE_S, Drill, Fleet, Gateway, Heard, SeenGateway
from limen.admin.schema import drills, gateways, peaks

__all__ = ["Presence"]

WINDOW_S = 600
"""How far back the most that were alive counts."""
FORGET_S = 3600
"""How long a process that has gone without a word is still shown."""


class Presence:
    """Part of a `Repository`. Every method raises `RulesUnavailable` while the database does not answer.

    Args:
        database: where the rules are.
        now: Unix time in seconds; by default the clock of the database.
    """

    def __init__(self, database: Database, now: Callable[[], float] | None = None) -> None:
        self._database = database
        self._now = now
        self._complete = False

    async def beat(self, gateway: Gateway) -> Heard:
        """Tell that a process is alive, and hear who else is.

        Each statement is for itself: a process that is stopped in the middle of it keeps nobody else from anything.
        """
        await self._prepare()
        async with self._database.single() as connection:
            now = await self._time(connection)
            await _write(connection, gateway, now)
            alive = await _count(connection, now)
            if await _note_peak(connection, now // 60, alive):
                await _forget(connection, now)
            drill = await _drill(connection, now)
            return Heard(
                alive,
                await _most(connection, now),
                await read_revision(connection),
                drill,
                drill.ends - now if drill else 0,
            )

    async def leave(self, gateway_id: str) -> None:
        """Tell that a process ends."""
        await self._prepare()
        async with self._database.single() as connection:
            await connection.execute(delete(gateways).where(gateways.c.id == gateway_id))

    async def fleet(self) -> Fleet:
        """Everybody, and what they should know."""
        async with self._reading() as connection:
            now = await self._time(connection)
            drill = await _drill(connection, now)
            return Fleet(
                await read_revision(connection),
                await _count(connection, now),
                await _most(connection, now),
                await _gateways(connection, now),
                drill,
                drill.ends - now if drill else 0,
            )

    async def start_drill(self, order: DrillOrder) -> Drill:
        """Rehearse an outage, in the place of the one that is being rehearsed."""
        async with self._writing() as connection:
            now = await self._time(connection)
            drill = Drill(STORE_DOWN, order.percent, now, now + math.ceil(order.seconds), order.reason)
            await connection.execute(delete(drills).where(drills.c.what == STORE_DOWN))
            await connection.execute(insert(drills).values(drill._asdict()))
            return drill

    async def end_drill(self) -> Drill | None:
        """End it before its time; what was ended, if anything."""
        async with self._writing() as connection:
            drill = await _drill(connection, await self._time(connection))
            await connection.execute(delete(drills).where(drills.c.what == STORE_DOWN))
            return drill

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        await self._prepare()
        async with self._database.reading() as connection:
            yield connection

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        await self._prepare()
        async with self._database.writing() as connection:
            yield connection

    async def _prepare(self) -> None:
        if not self._complete:
            await self._database.complete()
            self._complete = True

    async def _time(self, connection: AsyncConnection) -> int:
        return int(self._now() if self._now else await now_s(connection))


async def _write(connection: AsyncConnection, gateway: Gateway, now: int) -> None:
    values = {**gateway._asdict(), "last_seen": now}
    new = upsert(connection, gateways, **values)
    await connection.execute(new.on_conflict_do_update(index_elements=[gateways.c.id], set_=values))


async def _count(connection: AsyncConnection, now: int) -> int:
    alive = select(func.count()).select_from(gateways).where(gateways.c.last_seen > now - ALIVE_S)
    return int((await connection.execute(alive)).scalar_one())


async def _most(connection: AsyncConnection, now: int) -> int:
    most = select(func.max(peaks.c.most)).where(peaks.c.minute >= (now - WINDOW_S) // 60)
    return int((await connection.execute(most)).scalar_one() or 0)


async def _gateways(connection: AsyncConnection, now: int) -> tuple[SeenGateway, ...]:
    """Who was heard of within the last hour and did not say goodbye, ordered by host and process."""
    names = [gateways.c[name] for name in Gateway._fields]
    known = select(*names, gateways.c.last_seen).where(gateways.c.last_seen >= now - FORGET_S)
    rows = await connection.execute(known.order_by(gateways.c.host, gateways.c.pid, gateways.c.id))
    return tuple(SeenGateway(Gateway(*row[:-1]), max(0, now - row.last_seen)) for row in rows)


async def _note_peak(connection: AsyncConnection, minute: int, alive: int) -> bool:
    """Whether nothing was noted in this minute before. Most beats find that there is nothing to note."""
    known = (await connection.execute(select(peaks.c.most).where(peaks.c.minute == minute))).scalar_one_or_none()
    if known is None or known < alive:
        new = upsert(connection, peaks, minute=minute, most=alive)
        higher = new.on_conflict_do_update(
            index_elements=[peaks.c.minute], set_={"most": alive}, where=peaks.c.most < alive
        )
        await connection.execute(higher)
    return known is None


async def _forget(connection: AsyncConnection, now: int) -> None:
    """Rows that nobody asks for any more. Once a minute is enough."""
    await connection.execute(delete(gateways).where(gateways.c.last_seen < now - FORGET_S))
    await connection.execute(delete(peaks).where(peaks.c.minute < (now - 2 * WINDOW_S) // 60))
    await connection.execute(delete(drills).where(drills.c.ends < now - FORGET_S))


async def _drill(connection: AsyncConnection, now: int) -> Drill | None:
    running = select(*(drills.c[name] for name in Drill._fields)).where(
        drills.c.what == STORE_DOWN, drills.c.ends > now
    )
    row = (await connection.execute(running.limit(1))).first()
    return Drill(*row) if row else None
