"""The table of tokens of the admin API. A token itself is stored nowhere."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, String, Table

from limen.admin.schema import metadata

__all__ = ["tokens"]

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(8), primary_key=True),  # the public part of the token
    Column("name", String(64), nullable=False),
    Column("role", String(16), nullable=False),  # viewer, editor, approver
    Column("digest", String(64), nullable=False),  # SHA-256 of the token, in hex
    Column("created", BigInteger, nullable=False),  # Unix time in seconds, as all times here
    Column("created_by", String(256), nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger, nullable=True),
    Column("last_used", BigInteger, nullable=True),  # to the hour
)
