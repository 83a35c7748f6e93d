"""Changes that wait for a second person, changes that are watched, and what processes denied."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0005_guard"
down_revision = "0004_tokens"


def upgrade() -> None:
    op.create_table(
        "proposals",
        Column("id", sa.Integer),
        Column("action", sa.String(16), nullable=False),
        Column("edits", sa.Text, nullable=False),
        Column("base", sa.Text, nullable=False),
        Column("preview", sa.Text, nullable=False),
        Column("author", sa.String(256), nullable=False),
        Column("reason", sa.Text, nullable=False),
        Column("created", sa.BigInteger, nullable=False),
        Column("expires", sa.BigInteger, nullable=False),
        Column("state", sa.String(16), nullable=False),
        Column("decided_by", sa.String(256)),
        Column("decided_at", sa.BigInteger),
        Column("decided_why", sa.Text),
        Column("revision", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_proposals"),
    )
    op.create_table(
        "watches",
        Column("revision", sa.BigInteger, autoincrement=False),
        Column("author", sa.String(256), nullable=False),
        Column("before", sa.Text, nullable=False),
        Column("versions", sa.Text, nullable=False),
        Column("predicted", sa.Float, nullable=False),
        Column("denied_before", sa.Float, nullable=False),
        Column("started", sa.BigInteger, nullable=False),
        Column("ends", sa.BigInteger, nullable=False),
        Column("state", sa.String(16), nullable=False),
        Column("requests", sa.BigInteger, nullable=False),
        Column("denied", sa.BigInteger, nullable=False),
        Column("seen", sa.Float),
        Column("note", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_watches"),
    )
    op.create_index("ix_watches_state", "watches", ["state"])
    op.create_table(
        "denials",
        Column("gateway", sa.String(32)),
        Column("number", sa.Integer, autoincrement=False),
        Column("at", sa.BigInteger, nullable=False),
        Column("revision", sa.BigInteger, nullable=False),
        Column("requests", sa.BigInteger, nullable=False),
        Column("denied", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("gateway", "number", name="pk_denials"),
    )
    op.create_index("ix_denials_at", "denials", ["at"])
