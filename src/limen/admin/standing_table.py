"""Reading what was said of single clients. It is written in `standing_changes`."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Select, Table, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.database import Database
from limen.admin.schema import meta
from limen.admin.schema_standing import blocks, flags, overrides
from limen.admin.standing_records import Mark, StoredBlock, StoredFlag, StoredOverride, StoredStanding

__all__ = ["BLOCKS", "FLAGS", "Changes", "StandingTable", "called", "lives"]

AT_A_TIME = 1000


class _Kept(NamedTuple):
    """Where rows of one type lie."""

    table: Table
    row: Any
    rows: Select[Any]


def _kept(table: Table, row: Any) -> _Kept:
    return _Kept(table, row, select(*(table.c[name] for name in row._fields)))


BLOCKS, FLAGS, OVERRIDES = _kept(blocks, StoredBlock), _kept(flags, StoredFlag), _kept(overrides, StoredOverride)


class Changes(NamedTuple):
    mark: Mark
    rows: StoredStanding
    is_all: bool
    """Whether this is all there is, and what was known before counts no more."""


class StandingTable:
    """Part of a `Repository`. Every method raises `RulesUnavailable` while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def mark(self) -> Mark:
        """How far it has come."""
        async with self._database.reading() as connection:
            return await _mark(connection)

    async def changes(self, seen: int, now: int) -> Changes:
        """The rows that changed since `seen` changes, those that were taken away among them; or all that have not
        ended, when nobody can tell any more what changed. They are read some at a time, for there may be many.

        Args:
            now: Unix time in seconds.
        """
        async with self._database.reading() as connection:
            mark = await _mark(connection)
            since = seen if 0 < seen <= mark.standing and seen >= mark.floor else None
            rows = [await _read_changes(connection, kept, since, now) for kept in (BLOCKS, FLAGS, OVERRIDES)]
            return Changes(mark, StoredStanding(*rows), since is None)

    async def blocks(self, now: int, after: int, most: int, name: str | None) -> tuple[StoredBlock, ...]:
        """Those that have not ended, by their ids."""
        wanted = BLOCKS.rows.where(lives(blocks, now), blocks.c.id > after).order_by(blocks.c.id).limit(most)
        return await self._read(BLOCKS, wanted if name is None else wanted.where(blocks.c.name == name))

    async def flags(self, now: int, after: str, most: int) -> tuple[StoredFlag, ...]:
        """Those that have not ended, by their clients."""
        wanted = FLAGS.rows.where(lives(flags, now), flags.c.client > after).order_by(flags.c.client)
        return await self._read(FLAGS, wanted.limit(most))

    async def flag(self, client: str, now: int) -> StoredFlag | None:
        found = await self._read(FLAGS, FLAGS.rows.where(flags.c.client == client, lives(flags, now)))
        return found[0] if found else None

    async def overrides(self, now: int, skip: int, most: int, rule: str | None) -> tuple[StoredOverride, ...]:
        """Those that have not ended, by rule and name."""
        order = overrides.c.rule, overrides.c.by, overrides.c.name
        wanted = OVERRIDES.rows.where(lives(overrides, now)).order_by(*order).offset(skip).limit(most)
        return await self._read(OVERRIDES, wanted if rule is None else wanted.where(overrides.c.rule == rule))

    async def override(self, rule: str, by: str, name: str, now: int) -> StoredOverride | None:
        wanted = OVERRIDES.rows.where(*called(rule, by, name), lives(overrides, now))
        found = await self._read(OVERRIDES, wanted)
        return found[0] if found else None

    async def _read(self, kept: _Kept, wanted: Select[Any]) -> tuple[Any, ...]:
        async with self._database.reading() as connection:
            return tuple(kept.row(*row) for row in await connection.execute(wanted))


async def _mark(connection: AsyncConnection) -> Mark:
    return Mark(*(await connection.execute(select(meta.c.standing, meta.c.standing_floor))).one())


async def _read_changes(connection: AsyncConnection, kept: _Kept, since: int | None, now: int) -> tuple[Any, ...]:
    wanted = kept.rows.where(lives(kept.table, now) if since is None else kept.table.c.standing > since)
    found: list[Any] = []
    async with connection.stream(wanted) as rows:
        async for some in rows.partitions(AT_A_TIME):
            found += [kept.row(*row) for row in some]
    return tuple(found)


def lives(table: Table, now: int) -> Any:
    """A condition: it has not ended."""
    return or_(table.c.until.is_(None), table.c.until > now)


def called(rule: str, by: str, name: str) -> tuple[Any, ...]:
    """Conditions: the override of that name."""
    return overrides.c.rule == rule, overrides.c.by == by, overrides.c.name == name
