"""From the tables that a database has to those that this Limen needs. Only called under a lock.

Migrations are in `migrations/versions`, named by their number. A database remembers in `alembic_version` which was the
last. One that has been through migrations that this Limen does not know is read all the same, for they only add, unless
`meta.schema_version` says that older ones cannot read it.
"""

from __future__ import annotations

import secrets
from enum import Enum
from pathlib import Path

from sqlalchemy import Connection, inspect, select, text

from limen.admin.schema import SCHEMA_VERSION, meta
from limen.errors import MissingExtra, RulesUnavailable

__all__ = ["FIRST", "NEWEST", "Tables", "get_ready", "migration_of", "tables_of", "upgrade"]

FOLDER = Path(__file__).parent / "migrations"
KNOWN = tuple(sorted(path.stem for path in (FOLDER / "versions").glob("[0-9]*.py")))
FIRST, NEWEST = KNOWN[0], KNOWN[-1]
VERSION_TABLE = "alembic_version"


class Tables(Enum):
    NONE = "none"
    OLD = "old"
    """Some migrations are needed."""
    READY = "ready"


def tables_of(connection: Connection) -> Tables:
    """
    Raises:
        RulesUnavailable: a newer Limen made them, and this one cannot read them.
    """
    there = inspect(connection)
    if not there.has_table(meta.name):
        return Tables.NONE
    found = connection.execute(select(meta.c.schema_version)).scalar_one_or_none()
    if found is None:
        return Tables.NONE
    if found != SCHEMA_VERSION:
        raise RulesUnavailable(
            f"the rules database has tables of version {found}, and this Limen knows version {SCHEMA_VERSION}; "
            "use the Limen that made them, or another database"
        )
    migration = migration_of(connection)
    return Tables.OLD if migration in (None, *KNOWN[:-1]) else Tables.READY


def migration_of(connection: Connection) -> str | None:
    """The last migration that the database has been through; None: of none, or made before there were any."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one_or_none()
    return None if found is None else str(found)


def get_ready() -> None:
    """Import what migrations need, which takes a while, so that nobody waits for a lock meanwhile.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import alembic.command  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra("making or migrating a rules database", "service") from error


def upgrade(connection: Connection) -> None:
    """Bring the tables to the newest form, those of an empty database too."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    if connection.execute(select(meta.c.id)).first() is None:
        row = {"id": 1, "schema_version": SCHEMA_VERSION, "revision": 0, "secret": secrets.token_bytes(32).hex()}
        connection.execute(meta.insert().values(row))
