"""Tokens of the admin API."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0004_tokens"
down_revision = "0003_standing"


def upgrade() -> None:
    op.create_table(
        "tokens",
        Column("id", sa.String(8)),
        Column("name", sa.String(64), nullable=False),
        Column("role", sa.String(16), nullable=False),
        Column("digest", sa.String(64), nullable=False),
        Column("created", sa.BigInteger, nullable=False),
        Column("created_by", sa.String(256), nullable=False),
        Column("expires", sa.BigInteger, nullable=False),
        Column("revoked", sa.BigInteger),
        Column("last_used", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
    )
