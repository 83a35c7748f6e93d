"""What the first Limen made: rules, clients, API keys. Gateways, peaks and drills came later, without a migration."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0001_base"
down_revision = None


def upgrade() -> None:
    """Make the tables that are not there: a database of the first Limen has some of them, or all."""
    there = set(sa.inspect(op.get_bind()).get_table_names())
    for name, columns in TABLES.items():
        if name not in there:
            op.create_table(name, *columns)
    if "api_keys" not in there:
        op.create_index("ix_api_keys_client_id", "api_keys", ["client_id"])


TABLES = {
    "meta": (
        Column("id", sa.Integer, primary_key=True, autoincrement=False),
        Column("schema_version", sa.Integer, nullable=False),
        Column("revision", sa.BigInteger, nullable=False),
        Column("secret", sa.String(64), nullable=False),
        sa.CheckConstraint("id = 1", name="ck_meta_one_row"),
        sa.PrimaryKeyConstraint("id", name="pk_meta"),
    ),
    "rules": (
        Column("id", sa.String(63)),
        Column("document", sa.Text, nullable=False),
        Column("version", sa.Integer, nullable=False),
        Column("revision", sa.BigInteger, nullable=False),
        Column("deleted", sa.Boolean, nullable=False),
        Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rules"),
    ),
    "clients": (
        Column("id", sa.String(256)),
        Column("plan", sa.String(64)),
        Column("revision", sa.BigInteger, nullable=False),
        Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_clients"),
    ),
    "api_keys": (
        Column("digest", sa.String(64)),
        Column("client_id", sa.String(256), nullable=False),
        Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_api_keys"),
        sa.ForeignKeyConstraint(["client_id"], ["clients.id"], name="fk_api_keys_client_id_clients"),
    ),
    "gateways": (
        Column("id", sa.String(32)),
        Column("host", sa.String(255), nullable=False),
        Column("pid", sa.Integer, nullable=False),
        Column("kind", sa.String(16), nullable=False),
        Column("started", sa.BigInteger, nullable=False),
        Column("revision", sa.BigInteger, nullable=False),
        Column("state", sa.String(16), nullable=False),
        Column("store", sa.String(16), nullable=False),
        Column("drill_percent", sa.Float, nullable=False),
        Column("last_seen", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_gateways"),
    ),
    "peaks": (
        Column("minute", sa.BigInteger, autoincrement=False),
        Column("most", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("minute", name="pk_peaks"),
    ),
    "drills": (
        Column("what", sa.String(32)),
        Column("percent", sa.Float, nullable=False),
        Column("started", sa.BigInteger, nullable=False),
        Column("ends", sa.BigInteger, nullable=False),
        Column("reason", sa.String(256), nullable=False),
        sa.PrimaryKeyConstraint("what", name="pk_drills"),
    ),
}
