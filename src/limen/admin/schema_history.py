"""The tables of what was: every version of every rule, and the audit log. Nobody changes or deletes a row of them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, String, Table, Text

from limen.admin.schema import metadata

__all__ = ["audit", "rule_versions"]

rule_versions = Table(
    "rule_versions",
    metadata,
    Column("rule_id", String(63), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),  # of the whole, that the change made
    Column("document", Text, nullable=False),  # JSON, as it was written; empty: the rule was deleted
    Column("action", String(16), nullable=False),  # put, delete, rollback, promote …
    Column("author", String(256), nullable=False),
    Column("role", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", BigInteger, nullable=False),  # Unix time in seconds
)

audit = Table(
    "audit",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # 1, 2, 3 … without a gap
    Column("at", BigInteger, nullable=False),
    Column("author", String(256), nullable=False),
    Column("role", String(16), nullable=False),
    Column("action", String(64), nullable=False),  # such as rule.put
    Column("subject", Text, nullable=False),  # such as rule:search
    Column("detail", Text, nullable=False),  # JSON
    Column("previous", String(64), nullable=False),  # the hash of the row before
    Column("hash", String(64), nullable=False),  # SHA-256 over all the others, in hex
)
