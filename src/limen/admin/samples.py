"""Sampled traffic in the rules database: chunks that processes leave, and that a change of rules is tried on."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.database import Database
from limen.admin.drivers import now_s
from limen.admin.schema_samples import samples

__all__ = ["Samples"]

FORGET_EVERY = 30
MOST_CHUNKS = 2_000


class Samples:
    """Part of a `Repository`. Every method raises `RulesUnavailable` while the database does not answer.

    Args:
        database: where the rules are.
        now: Unix time in seconds; by default the clock of the database.
    """

    def __init__(self, database: Database, now: Callable[[], float] | None = None) -> None:
        self._database = database
        self._now = now
        self._puts = 0

    async def put(self, gateway: str, chunk: bytes, rows: int, keep_s: float) -> None:
        """Leave a chunk; now and then forget all that are older than that."""
        async with self._database.writing() as connection:
            now = await self._time(connection)
            row = {"gateway": gateway, "at": now, "rows": rows, "chunk": chunk}
            await connection.execute(insert(samples).values(**row))
            if self._puts % FORGET_EVERY == 0:
                await connection.execute(delete(samples).where(samples.c.at < now - int(keep_s)))
        self._puts += 1

    async def newest(self, rows: int) -> list[bytes]:
        """The newest chunks: so many that they have this number of rows together, and the oldest of them first."""
        newest_first = samples.c.at.desc(), samples.c.id.desc()
        async with self._database.reading() as connection:
            sizes = select(samples.c.id, samples.c.rows).order_by(*newest_first).limit(MOST_CHUNKS)
            wanted = _within(rows, [(row.id, row.rows) for row in await connection.execute(sizes)])
            found = select(samples.c.chunk).where(samples.c.id.in_(wanted)).order_by(*newest_first)
            return [row.chunk for row in await connection.execute(found)][::-1]

    async def _time(self, connection: AsyncConnection) -> int:
        return int(self._now() if self._now else await now_s(connection))


def _within(most: int, sizes: list[tuple[int, int]]) -> list[int]:
    """The first of these chunks that are not more than that together; the very first in any case."""
    wanted, rows = list[int](), 0
    for chunk, size in sizes:
        rows += size
        if wanted and rows > most:
            break
        wanted.append(chunk)
    return wanted
