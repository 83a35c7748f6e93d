"""The tables of the guard.

proposals  changes that wait for a second person
watches    changes that are compared with what they were predicted to do, or were
denials    how much each process decided and denied, every few seconds of the last hours
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, String, Table, Text

from limen.admin.schema import metadata

__all__ = ["denials", "proposals", "watches"]

proposals = Table(
    "proposals",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("action", String(16), nullable=False),
    Column("edits", Text, nullable=False),  # JSON: rule to document, or null to delete it
    Column("base", Text, nullable=False),  # JSON: rule to the version that the author saw, or null
    Column("preview", Text, nullable=False),  # JSON: what the author was told
    Column("author", String(256), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created", BigInteger, nullable=False),  # Unix time in seconds, as all times here
    Column("expires", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),  # open, approved, rejected
    Column("decided_by", String(256), nullable=True),
    Column("decided_at", BigInteger, nullable=True),
    Column("decided_why", Text, nullable=True),
    Column("revision", BigInteger, nullable=True),  # in which it went in
)

watches = Table(
    "watches",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),  # of the change
    Column("author", String(256), nullable=False),
    Column("before", Text, nullable=False),  # JSON: rule to the document that it had, or null
    Column("versions", Text, nullable=False),  # JSON: rule to the version that the change made, or null
    Column("predicted", Float, nullable=False),  # newly denied requests, of all: 0 to 1
    Column("denied_before", Float, nullable=False),  # requests that were denied before, of all, by the same sample
    Column("started", BigInteger, nullable=False),
    Column("ends", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),  # watching, passed, kept, superseded, rolled_back, failed
    Column("requests", BigInteger, nullable=False),  # since it was in force
    Column("denied", BigInteger, nullable=False),  # of these, by the rules that changed
    Column("seen", Float, nullable=True),  # newly denied requests, of all, as far as is known
    Column("note", Text, nullable=False),
    Index(None, "state"),
)

denials = Table(
    "denials",
    metadata,
    Column("gateway", String(32), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # 1, 2, 3 … of this process
    Column("at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),  # of the rules that it decided by
    Column("requests", BigInteger, nullable=False),
    Column("denied", Text, nullable=False),  # JSON: rule to how many it denied
    Index(None, "at"),
)
