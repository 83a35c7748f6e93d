"""A rules database: transactions that read or write, the making of its tables, and its errors translated."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from weakref import WeakSet

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.drivers import (
    MIGRATING,
    READING,
    SINGLE,
    WRITING,
    Workers,
    engine_for,
    lock_for_creation,
    prepare_file,
)  # fmt: skip
from limen.admin.migrating import FIRST, NEWEST, Tables, get_ready, migration_of, tables_of, upgrade
from limen.errors import RulesUnavailable

__all__ = ["Database"]

PATIENCE_S = 6
"""For a whole transaction: the end of waiting for a server that accepts connections and then says nothing."""
MAKING_S = 20
"""For the tables of an empty database, of which several processes may want to make them."""
MIGRATION_S = 600
"""For all migrations together."""


class Database:
    """Connections to one rules database. Nothing is connected before the first transaction.

    Args:
        url: `sqlite:///path` or `postgresql://…`.

    Raises:
        SettingsError: not such a URL.
        MissingExtra: the driver is not installed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._workers: Workers = WeakSet()
        self._reader = engine_for(url, READING, self._workers)
        self._writer = engine_for(url, WRITING, self._workers)
        self._single = engine_for(url, SINGLE, self._workers)
        self._ready = False

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that sees one state from its start to its end.

        Raises:
            RulesUnavailable: the database does not answer.
        """
        with _translated(self._url):
            await self._prepare()
            async with asyncio.timeout(PATIENCE_S), self._reader.begin() as connection:
                yield connection

    @asynccontextmanager
    async def inspecting(self) -> AsyncIterator[AsyncConnection]:
        """As `reading`, for somebody who goes over everything and is in no hurry.

        Raises:
            RulesUnavailable: the database does not answer.
        """
        with _translated(self._url):
            await self._prepare()
            async with asyncio.timeout(MIGRATION_S), self._reader.begin() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is committed at its end, and undone when its body raises.

        Raises:
            RulesUnavailable: the database does not answer; nothing was changed, unless it went away while committing.
        """
        with _translated(self._url):
            await self._prepare()
            async with asyncio.timeout(PATIENCE_S), self._writer.begin() as connection:
                yield connection

    @asynccontextmanager
    async def single(self) -> AsyncIterator[AsyncConnection]:
        """Statements that need no transaction: each is done when it has run.

        Raises:
            RulesUnavailable: the database does not answer; nobody knows which were done.
        """
        with _translated(self._url):
            await self._prepare()
            async with asyncio.timeout(PATIENCE_S), self._single.connect() as connection:
                yield connection

    async def migrate(self) -> tuple[str | None, str]:
        """Make the tables, or bring older ones to the form that this Limen needs. All of it is done, or nothing.

        Returns the migrations that the database had been through last, before and after; None: it was empty.

        Raises:
            RulesUnavailable: the database does not answer, or does not let us.
        """
        with _translated(self._url):
            async with asyncio.timeout(PATIENCE_S), self._reader.begin() as connection:
                if await connection.run_sync(tables_of) is Tables.READY:
                    found = await connection.run_sync(migration_of) or NEWEST
                    return found, found
            async with self._migrating(MIGRATION_S) as connection:
                return await _migrate(connection)

    async def is_made(self) -> bool:
        """Whether its tables are there. Makes none.

        Raises:
            RulesUnavailable: the database does not answer, or its tables are of another version.
        """
        with _translated(self._url):
            async with asyncio.timeout(PATIENCE_S), self._reader.begin() as connection:
                return await connection.run_sync(tables_of) is not Tables.NONE

    async def close(self) -> None:
        await self._reader.dispose()
        await self._writer.dispose()
        await self._single.dispose()
        # The thread of a connection that was broken off answers to this event loop before it ends.
        await asyncio.to_thread(_join, list(self._workers))

    async def _prepare(self) -> None:
        """Make the tables of an empty database. Any number of processes may do it at once."""
        if self._ready:
            return
        async with asyncio.timeout(PATIENCE_S), self._reader.begin() as connection:
            found = await connection.run_sync(tables_of)
        if found is Tables.NONE:
            found = await self._make()
        if found is Tables.OLD:
            raise RulesUnavailable(
                f"the rules database {_shown(self._url)} was made by an older Limen; bring it up to date with: "
                "limen rules migrate --rules-db URL"
            )
        self._ready = True

    async def _make(self) -> Tables:
        """Make them, unless somebody is faster; what is there then."""
        async with self._migrating(MAKING_S) as connection:
            found = await connection.run_sync(tables_of)
            if found is Tables.NONE:
                await connection.run_sync(upgrade)
                found = Tables.READY
            return found

    @asynccontextmanager
    async def _migrating(self, patience_s: float) -> AsyncIterator[AsyncConnection]:
        """A transaction under the lock of migrations, whose statements may take their time."""
        await asyncio.to_thread(get_ready)
        migrator = engine_for(self._url, MIGRATING, self._workers)
        try:
            async with asyncio.timeout(patience_s):
                await prepare_file(migrator)
                async with migrator.begin() as connection:
                    await lock_for_creation(connection)
                    yield connection
        finally:
            await migrator.dispose()


async def _migrate(connection: AsyncConnection) -> tuple[str | None, str]:
    found = await connection.run_sync(tables_of)
    before = None if found is Tables.NONE else await connection.run_sync(migration_of) or FIRST
    if found is not Tables.READY:  # somebody may have been faster
        await connection.run_sync(upgrade)
    return before, await connection.run_sync(migration_of) or NEWEST


def _join(workers: Iterable[Thread]) -> None:
    """Wait for threads to end, but not for one whose connection somebody still holds."""
    deadline = time.monotonic() + PATIENCE_S / 2
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Whatever a driver raises becomes `RulesUnavailable`. Its message holds no password and no value."""
    try:
        yield
    except _foreign() as error:
        original = error.orig if isinstance(error, DBAPIError) and error.orig else error
        reason = str(original).strip().partition("\n")[0] or "no answer in time"
        raise RulesUnavailable(f"the rules database {_shown(url)} cannot be used: {reason}") from error


def _foreign() -> tuple[type[Exception], ...]:
    common = (SQLAlchemyError, sqlite3.Error, OSError)
    try:
        import asyncpg  # type: ignore[import-untyped]
    except ImportError:
        return common
    return (*common, asyncpg.PostgresError, asyncpg.InterfaceError)


def _shown(url: str) -> str:
    """The URL without user, password and parameters. A password may hold what should have been escaped."""
    scheme, _, place = url.partition("://")
    return f"{scheme}://{place.rpartition('@')[2].partition('?')[0]}"
