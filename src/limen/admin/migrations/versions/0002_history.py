"""Every version of every rule, and the audit log. Both are append-only, whoever writes there."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0002_history"
down_revision = "0001_base"

APPEND_ONLY = ("rule_versions", "audit")


def upgrade() -> None:
    op.create_table(
        "rule_versions",
        Column("rule_id", sa.String(63)),
        Column("version", sa.Integer, autoincrement=False),
        Column("revision", sa.BigInteger, nullable=False),
        Column("document", sa.Text, nullable=False),
        Column("action", sa.String(16), nullable=False),
        Column("author", sa.String(256), nullable=False),
        Column("role", sa.String(16), nullable=False),
        Column("reason", sa.Text, nullable=False),
        Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("rule_id", "version", name="pk_rule_versions"),
    )
    op.create_table(
        "audit",
        Column("seq", sa.BigInteger, autoincrement=False),
        Column("at", sa.BigInteger, nullable=False),
        Column("author", sa.String(256), nullable=False),
        Column("role", sa.String(16), nullable=False),
        Column("action", sa.String(64), nullable=False),
        Column("subject", sa.Text, nullable=False),
        Column("detail", sa.Text, nullable=False),
        Column("previous", sa.String(64), nullable=False),
        Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit"),
    )
    op.add_column("rules", Column("carry", sa.Text, nullable=True))
    _keep_what_is_there()
    for table in APPEND_ONLY:
        _forbid_changes(table)


def _keep_what_is_there() -> None:
    """A first version for each rule: the one that it is at. Who wrote it, and what was before it, nobody knows."""
    op.execute(
        "INSERT INTO rule_versions"
        " (rule_id, version, revision, document, action, author, role, reason, at)"
        " SELECT id, version, revision, document, CASE WHEN deleted THEN 'delete' ELSE 'put' END,"
        " 'unknown', '', 'from before there was a history', updated_at FROM rules"
    )


def _forbid_changes(table: str) -> None:
    if op.get_bind().dialect.name == "postgresql":
        _forbid_in_postgres(table)
    else:
        _forbid_in_sqlite(table)


def _forbid_in_postgres(table: str) -> None:
    op.execute(
        "CREATE OR REPLACE FUNCTION limen_append_only() RETURNS trigger LANGUAGE plpgsql AS $$"
        " BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION limen_append_only()"
    )


def _forbid_in_sqlite(table: str) -> None:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    for what in ("UPDATE", "DELETE"):
        op.execute(f"CREATE TRIGGER {table}_no_{what.lower()} BEFORE {what} ON {table} {refuse}")
    # REPLACE deletes without asking the trigger for DELETE.
    same = {"audit": "seq = NEW.seq", "rule_versions": "rule_id = NEW.rule_id AND version = NEW.version"}[table]
    there = f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {same})"
    op.execute(f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} {there} {refuse}")
