"""Who decides by these rules, and which outage is rehearsed: what processes tell each other through the database.

Every process writes its row every two seconds. Alive is who was heard of within ten seconds. How many were alive at
one time is kept for each minute, so that the most within the last ten is known to those that were not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sqlalchemy import case, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.audit import canonical
from limen.admin.database import Database
from limen.admin.drills import STORE_DOWN, DrillOrder
from limen.admin.drivers import now_s, upsert
from limen.admin.history import append_audit, signed
from limen.admin.queries import read_counters, read_revision
from limen.admin.records import ALIVE_S, UNSIGNED, Drill, Fleet, Gateway, Heard, SeenGateway, Signature
from limen.admin.schema import drills, gateways, meta, peaks

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

    async def beat(self, gateway: Gateway) -> Heard:
        """Tell that a process is alive, and hear who else is.

        Each statement is for itself: a process that is stopped in the middle of it keeps nobody else from anything.
        """
        async with self._database.single() as connection:
            now = await self._time(connection)
            await _write(connection, gateway, now)
            alive, behind = await _count(connection, now)
            if await _note_peak(connection, now // 60, alive):
                await _forget(connection, now)
            drill = await _drill(connection, now)
            revision, standing = await read_counters(connection)
            return Heard(
                alive,
                await _most(connection, now),
                revision,
                drill,
                drill.ends - now if drill else 0,
                standing,
                behind,
            )

    async def leave(self, gateway_id: str) -> None:
        """Tell that a process ends."""
        async with self._database.single() as connection:
            await connection.execute(delete(gateways).where(gateways.c.id == gateway_id))

    async def fleet(self) -> Fleet:
        """Everybody, and what they should know."""
        async with self._database.reading() as connection:
            now = await self._time(connection)
            drill = await _drill(connection, now)
            return Fleet(
                await read_revision(connection),
                (await _count(connection, now))[0],
                await _most(connection, now),
                await _gateways(connection, now),
                drill,
                drill.ends - now if drill else 0,
            )

    async def start_drill(self, order: DrillOrder, by: Signature = UNSIGNED) -> Drill:
        """Rehearse an outage, in the place of the one that is being rehearsed."""
        async with self._database.writing() as connection:
            now = await self._time(connection)
            drill = Drill(STORE_DOWN, order.percent, now, now + math.ceil(order.seconds), order.reason)
            await connection.execute(delete(drills).where(drills.c.what == STORE_DOWN))
            await connection.execute(insert(drills).values(drill._asdict()))
            await _note(connection, now, by, "drill.start", drill)
            return drill

    async def end_drill(self, by: Signature = UNSIGNED) -> Drill | None:
        """End it before its time; what was ended, if anything."""
        async with self._database.writing() as connection:
            now = await self._time(connection)
            drill = await _drill(connection, now)
            await connection.execute(delete(drills).where(drills.c.what == STORE_DOWN))
            if drill is not None:
                await _note(connection, now, by, "drill.end", drill)
            return drill

    async def _time(self, connection: AsyncConnection) -> int:
        return int(self._now() if self._now else await now_s(connection))


async def _note(connection: AsyncConnection, now: int, by: Signature, action: str, drill: Drill) -> None:
    by = signed(by)
    detail = canonical({**drill._asdict(), "reason": by.reason or drill.reason})
    await append_audit(connection, now, by, [(action, f"drill:{drill.what}", detail)])


async def _write(connection: AsyncConnection, gateway: Gateway, now: int) -> None:
    values = {**gateway._asdict(), "last_seen": now}
    new = upsert(connection, gateways, **values)
    await connection.execute(new.on_conflict_do_update(index_elements=[gateways.c.id], set_=values))


async def _count(connection: AsyncConnection, now: int) -> tuple[int, int]:
    """(how many are alive, how many of these have older rules than the database)."""
    newest = select(meta.c.revision).scalar_subquery()
    older = func.sum(case((gateways.c.revision < newest, 1), else_=0))
    alive = select(func.count(), older).select_from(gateways).where(gateways.c.last_seen > now - ALIVE_S)
    count, behind = (await connection.execute(alive)).one()
    return int(count), int(behind or 0)


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
