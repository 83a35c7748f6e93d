"""A rules database: transactions that read or write, the first creation of its tables, and its errors translated."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from weakref import WeakSet

from sqlalchemy import inspect, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.drivers import READING, SINGLE, WRITING, Workers, engine_for, lock_for_creation, prepare_file
from limen.admin.schema import SCHEMA_VERSION, meta, metadata
from limen.errors import RulesUnavailable

__all__ = ["Database"]

PATIENCE_S = 6
"""For a whole transaction: the end of waiting for a server that accepts connections and then says nothing."""


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
            async with asyncio.timeout(PATIENCE_S):
                await self._prepare()
                async with self._reader.begin() as connection:
                    yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is committed at its end, and undone when its body raises.

        Raises:
            RulesUnavailable: the database does not answer; nothing was changed, unless it went away while committing.
        """
        with _translated(self._url):
            async with asyncio.timeout(PATIENCE_S):
                await self._prepare()
                async with self._writer.begin() as connection:
                    yield connection

    @asynccontextmanager
    async def single(self) -> AsyncIterator[AsyncConnection]:
        """Statements that need no transaction: each is done when it has run. Tables have to be there: `complete`.

        Raises:
            RulesUnavailable: the database does not answer; nobody knows which were done.
        """
        with _translated(self._url):
            async with asyncio.timeout(PATIENCE_S), self._single.connect() as connection:
                yield connection

    async def complete(self) -> None:
        """Make the tables that were not there when an older Limen made the database.

        Raises:
            RulesUnavailable: the database does not answer, or does not let us.
        """
        async with self.reading() as connection:
            there = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
        if metadata.tables.keys() - set(there):
            async with self.writing() as connection:
                await lock_for_creation(connection)
                await connection.run_sync(metadata.create_all)

    async def is_made(self) -> bool:
        """Whether its tables are there. Makes none.

        Raises:
            RulesUnavailable: the database does not answer, or its tables are of another version.
        """
        with _translated(self._url):
            async with asyncio.timeout(PATIENCE_S), self._reader.begin() as connection:
                return await _is_made(connection)

    async def close(self) -> None:
        await self._reader.dispose()
        await self._writer.dispose()
        await self._single.dispose()
        # The thread of a connection that was broken off answers to this event loop before it ends.
        await asyncio.to_thread(_join, list(self._workers))

    async def _prepare(self) -> None:
        """Make the tables unless they are there. Any number of processes may do it at once."""
        if self._ready:
            return
        async with self._reader.begin() as connection:
            self._ready = await _is_made(connection)
        if not self._ready:
            await prepare_file(self._writer)
            async with self._writer.begin() as connection:
                await lock_for_creation(connection)
                if not await _is_made(connection):
                    await _make(connection)
            self._ready = True


def _join(workers: Iterable[Thread]) -> None:
    """Wait for threads to end, but not for one whose connection somebody still holds."""
    deadline = time.monotonic() + PATIENCE_S / 2
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))


async def _is_made(connection: AsyncConnection) -> bool:
    if not await connection.run_sync(lambda sync: inspect(sync).has_table(meta.name)):
        return False
    found = (await connection.execute(select(meta.c.schema_version))).scalar_one_or_none()
    if found not in (None, SCHEMA_VERSION):
        raise RulesUnavailable(
            f"the rules database has tables of version {found}, and this Limen knows version {SCHEMA_VERSION}; "
            "use the Limen that made them, or another database"
        )
    return found is not None


async def _make(connection: AsyncConnection) -> None:
    await connection.run_sync(metadata.create_all)
    row = {"id": 1, "schema_version": SCHEMA_VERSION, "revision": 0, "secret": secrets.token_bytes(32).hex()}
    await connection.execute(meta.insert().values(row))


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
