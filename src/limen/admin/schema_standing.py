"""The tables of what was said of single clients. `meta.standing` counts its changes; a row has the number of its last.

What is taken away keeps its row for an hour, as ended at 0, so that whoever asks for what changed hears of it.
`meta.standing_floor` is the highest number among the rows that are gone: who knows less than that asks for everything.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text, UniqueConstraint

from limen.admin.schema import metadata

__all__ = ["blocks", "flags", "overrides"]


def _signed() -> tuple[Column[object], ...]:
    """What every row has beside what it says."""
    return (
        Column("until", BigInteger, nullable=True),  # Unix time in seconds; 0: taken away; null: without an end
        Column("reason", String(256), nullable=False),
        Column("author", String(256), nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("standing", BigInteger, nullable=False),
    )


blocks = Table(
    "blocks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", String(8), nullable=False),  # block or allow
    Column("by", String(8), nullable=False),  # client, user or ip
    Column("name", String(256), nullable=False),
    *_signed(),
    UniqueConstraint("by", "name"),
    Index(None, "standing"),
    Index(None, "until"),
)

flags = Table(
    "flags",
    metadata,
    Column("client", String(256), primary_key=True),
    Column("retry_after", BigInteger, nullable=True),
    *_signed(),
    Index(None, "standing"),
    Index(None, "until"),
)

overrides = Table(
    "overrides",
    metadata,
    Column("rule", String(63), primary_key=True),
    Column("by", String(8), primary_key=True),  # client or plan
    Column("name", String(256), primary_key=True),
    Column("limit", Text, nullable=False),
    *_signed(),
    Index(None, "standing"),
    Index(None, "until"),
)
