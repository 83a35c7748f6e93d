"""Sampled traffic, to try changes of rules on."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0006_samples"
down_revision = "0005_guard"


def upgrade() -> None:
    op.create_table(
        "samples",
        Column("id", sa.Integer),
        Column("gateway", sa.String(32), nullable=False),
        Column("at", sa.BigInteger, nullable=False),
        Column("rows", sa.Integer, nullable=False),
        Column("chunk", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_samples"),
    )
    op.create_index("ix_samples_at", "samples", ["at"])
