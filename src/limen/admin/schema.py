"""The tables of the rules database, the same for SQLite and PostgreSQL: what there is now, and who runs by it.

Other parts declare theirs in `schema_*.py`, on the same `metadata`. Tables are made by migrations, never from here.

meta       one row: the revision that every change moves on by one, and the secret of the deployment
rules      one row for each rule there ever was; a deleted one keeps its row, so that its versions go on
clients    who there is, and on which plan
api_keys   keyed hashes of API keys; a key itself is stored nowhere
gateways   who decides by these rules: a row for each process, renewed every two seconds
peaks      how many were alive at most, minute by minute
drills     outages that are rehearsed
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

__all__ = ["SCHEMA_VERSION", "api_keys", "clients", "drills", "gateways", "meta", "metadata", "peaks", "rules"]

SCHEMA_VERSION = 1
"""Moves on when an older Limen could no longer read the database. Migrations that only add leave it as it is."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="one_row"), primary_key=True, autoincrement=False),
    Column("schema_version", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("secret", String(64), nullable=False),  # 32 random bytes in hex
    Column("standing", BigInteger, nullable=False, server_default="0"),  # see `schema_standing`
    Column("standing_floor", BigInteger, nullable=False, server_default="0"),
)

rules = Table(
    "rules",
    metadata,
    Column("id", String(63), primary_key=True),
    Column("document", Text, nullable=False),  # JSON, as it was written
    Column("version", Integer, nullable=False),  # 1, 2, 3 … of this rule
    Column("revision", BigInteger, nullable=False),  # of the whole, at its last change
    Column("deleted", Boolean, nullable=False),
    Column("updated_at", BigInteger, nullable=False),  # Unix time in seconds
    Column("carry", Text, nullable=True),  # how buckets become those of its limit, while they do (`carrying`)
)

clients = Table(
    "clients",
    metadata,
    Column("id", String(256), primary_key=True),
    Column("plan", String(64), nullable=True),
    Column("revision", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("client_id", ForeignKey("clients.id"), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Index(None, "client_id"),
)

gateways = Table(
    "gateways",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("store", String(16), nullable=False),
    Column("drill_percent", Float, nullable=False),
    Column("last_seen", BigInteger, nullable=False),  # Unix time in seconds, by the clock of the database
)

peaks = Table(
    "peaks",
    metadata,
    Column("minute", BigInteger, primary_key=True, autoincrement=False),  # since 1970
    Column("most", Integer, nullable=False),
)

drills = Table(
    "drills",
    metadata,
    Column("what", String(32), primary_key=True),
    Column("percent", Float, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("ends", BigInteger, nullable=False),
    Column("reason", String(256), nullable=False),
)
