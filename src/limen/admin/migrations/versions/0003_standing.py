"""Blocks, flags and limits of single clients."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0003_standing"
down_revision = "0002_history"


def upgrade() -> None:
    for name in ("standing", "standing_floor"):
        op.add_column("meta", Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "blocks",
        Column("id", sa.Integer),
        Column("kind", sa.String(8), nullable=False),
        Column("by", sa.String(8), nullable=False),
        Column("name", sa.String(256), nullable=False),
        *_signed(),
        sa.PrimaryKeyConstraint("id", name="pk_blocks"),
        sa.UniqueConstraint("by", "name", name="uq_blocks_by"),
    )
    op.create_table(
        "flags",
        Column("client", sa.String(256), nullable=False),
        Column("retry_after", sa.BigInteger, nullable=True),
        *_signed(),
        sa.PrimaryKeyConstraint("client", name="pk_flags"),
    )
    op.create_table(
        "overrides",
        Column("rule", sa.String(63), nullable=False),
        Column("by", sa.String(8), nullable=False),
        Column("name", sa.String(256), nullable=False),
        Column("limit", sa.Text, nullable=False),
        *_signed(),
        sa.PrimaryKeyConstraint("rule", "by", "name", name="pk_overrides"),
    )
    for table in ("blocks", "flags", "overrides"):
        for column in ("standing", "until"):
            op.create_index(f"ix_{table}_{column}", table, [column])


def _signed() -> tuple[Column[Any], ...]:
    return (
        Column("until", sa.BigInteger, nullable=True),
        Column("reason", sa.String(256), nullable=False),
        Column("author", sa.String(256), nullable=False),
        Column("updated_at", sa.BigInteger, nullable=False),
        Column("standing", sa.BigInteger, nullable=False),
    )
