"""From a URL to an engine: all that differs between SQLite and PostgreSQL is on this page."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from threading import Thread
from typing import Any
from weakref import WeakSet

from sqlalchemy import Table, event
from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine.interfaces import IsolationLevel
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from limen.errors import MissingExtra, SettingsError

__all__ = [
    "CHANNEL", "MIGRATING", "READING", "SINGLE", "WRITING", "Workers", "connect_postgres", "engine_for", "is_postgres",
    "lock_for_creation", "notify", "now_s", "prepare_file", "upsert",
]  # fmt: skip

STATEMENT_TIMEOUT_S = 2
"""A statement that takes longer is given up, waiting for somebody else's change included."""
MIGRATION_STATEMENT_S = 300
"""The same for a statement of a migration, which may go over a whole table."""
RETRY_S = 0.02
CHANNEL = "limen_rules"
"""On which PostgreSQL tells that rules, clients, or what was said of single clients have changed."""
CREATION_LOCK = 0x6C696D656E
"""The advisory lock under which PostgreSQL tables are made: "limen" in ASCII."""

Workers = WeakSet[Thread]

READING = "reading"
"""A transaction that sees one state from its start to its end."""
WRITING = "writing"
"""A transaction that sees what is current. Changes take their turn, one after the other."""
SINGLE = "single"
"""No transaction: each statement is one for itself. A process that is stopped between two of them holds nothing up."""
MIGRATING = "migrating"
"""As `WRITING`, for statements that take their time."""

BEGIN = {READING: "BEGIN", WRITING: "BEGIN IMMEDIATE", SINGLE: "", MIGRATING: "BEGIN IMMEDIATE"}
ISOLATION: dict[str, IsolationLevel] = {
    READING: "REPEATABLE READ",
    WRITING: "READ COMMITTED",
    SINGLE: "AUTOCOMMIT",
    MIGRATING: "READ COMMITTED",
}


def engine_for(url: str, purpose: str, workers: Workers) -> AsyncEngine:
    """An engine for `sqlite:///path`, `sqlite:////absolute/path` or `postgresql://…`; nothing is connected yet.

    Args:
        purpose: `READING`, `WRITING`, `SINGLE` or `MIGRATING`.
        workers: is given the thread of each connection that has one.

    Raises:
        SettingsError: not such a URL.
        MissingExtra: the driver is not installed.
    """
    scheme = url.partition(":")[0]
    patience_s = MIGRATION_STATEMENT_S if purpose == MIGRATING else STATEMENT_TIMEOUT_S
    if scheme == "sqlite":
        return _sqlite(url, BEGIN[purpose], workers, patience_s)
    if is_postgres(url):
        return _postgres(url, ISOLATION[purpose], patience_s)
    raise SettingsError(f"a rules database is sqlite:///path or postgresql://user@host/name, not {scheme!r}")


def _sqlite(url: str, begin: str, workers: Workers, patience_s: float) -> AsyncEngine:
    path = url.removeprefix("sqlite:///")
    if path == url or not path or "?" in path or path.startswith((":memory:", "file:")):
        raise SettingsError(
            "a SQLite rules database is a file: write sqlite:///rules.db or sqlite:////var/lib/rules.db"
        )
    try:
        import aiosqlite
    except ImportError as error:
        raise MissingExtra("a SQLite rules database", "service") from error

    async def connect() -> aiosqlite.Connection:
        connection = aiosqlite.connect(path, timeout=patience_s)
        connection._thread.daemon = True  # as SQLAlchemy does: a forgotten connection must not keep a process alive
        workers.add(connection._thread)
        await connection
        # Text that somebody wrote there in another encoding is a fault of that text, and no reason to read nothing.
        connection.text_factory = lambda data: data.decode(errors="surrogateescape")
        return connection

    engine = create_async_engine(f"sqlite+aiosqlite:///{path}", async_creator=connect, hide_parameters=True)
    event.listen(engine.sync_engine, "connect", _prepare_connection)
    if begin:
        event.listen(engine.sync_engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    else:
        event.listen(engine.sync_engine, "connect", _write_lightly)
    return engine


def _prepare_connection(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins nothing of its own; the "begin" event does
    _execute(connection, "PRAGMA foreign_keys=ON")


def _write_lightly(connection: Any, _record: object) -> None:
    """Do not wait for the disk: what is lost when the machine crashes is written again two seconds later."""
    _execute(connection, "PRAGMA synchronous=NORMAL")


def _execute(connection: Any, statement: str) -> None:
    cursor = connection.cursor()
    cursor.execute(statement)
    cursor.close()


async def connect_postgres(url: str, patience_s: float) -> Any:
    """A connection of the driver itself.

    Args:
        patience_s: the longest that a statement may take.

    Raises:
        SettingsError: the URL cannot be read.
        MissingExtra: the driver is not installed.
    """
    asyncpg = _asyncpg()
    # The driver reads the URL itself, so that all spellings of libpq are allowed: sockets, sslmode, several hosts.
    settings = {"statement_timeout": f"{patience_s:g}s", "application_name": "limen"}
    try:
        return await asyncpg.connect(
            url, timeout=STATEMENT_TIMEOUT_S, command_timeout=patience_s + 1, server_settings=settings
        )
    except ValueError as error:
        # What the driver says may repeat a part of the password.
        raise SettingsError(
            "the address of the rules database cannot be read; write it as postgresql://user:password@host:5432/name,"
            " with %2F for a / and %23 for a # in the password"
        ) from error


def is_postgres(url: str) -> bool:
    return url.partition(":")[0] in ("postgresql", "postgres")


async def notify(connection: AsyncConnection) -> None:
    """Tell those who listen that something changed, once this transaction is committed. SQLite has nobody to tell."""
    if connection.dialect.name == "postgresql":
        await connection.exec_driver_sql(f"NOTIFY {CHANNEL}")


def _asyncpg() -> Any:
    try:
        import asyncpg  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra("a PostgreSQL rules database", "postgres") from error
    return asyncpg


def _postgres(url: str, isolation: str, patience_s: int) -> AsyncEngine:
    _asyncpg()
    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connect_postgres(url, patience_s),
        isolation_level=isolation,
        pool_timeout=STATEMENT_TIMEOUT_S,
        pool_pre_ping=True,
        hide_parameters=True,
    )


async def prepare_file(engine: AsyncEngine) -> None:
    """Let readers of a SQLite file go on while somebody writes. The file remembers it."""
    if engine.dialect.name == "sqlite":
        async with engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            while not await _switched_to_wal(driver):
                await asyncio.sleep(RETRY_S)


async def _switched_to_wal(driver: Any) -> bool:
    """False when somebody else holds the file: SQLite's own waiting does not cover this statement."""
    try:
        async with driver.execute("PRAGMA journal_mode=WAL"):
            return True
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            return False
        raise


async def lock_for_creation(connection: AsyncConnection) -> None:
    """Hold others off until the end of this writing transaction. In SQLite the transaction itself does."""
    if connection.dialect.name == "postgresql":
        await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({CREATION_LOCK})")


async def now_s(connection: AsyncConnection) -> float:
    """Unix time by the clock that all share: that of the server, or of this machine, where the file is."""
    if connection.dialect.name == "postgresql":
        found = await connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(found.scalar_one())
    return time.time()


def upsert(connection: AsyncConnection, table: Table, **values: Any) -> PostgresInsert | SqliteInsert:
    """An INSERT that is to say what to do when the row is there: `.on_conflict_do_update(…)`."""
    make = postgres_insert if connection.dialect.name == "postgresql" else sqlite_insert
    return make(table).values(values)
