"""The table of sampled traffic.

samples  some seconds of requests of one process, without anybody's name; kept for some hours
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table

from limen.admin.schema import metadata

__all__ = ["samples"]

samples = Table(
    "samples",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("gateway", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),  # when it was written: Unix time in seconds, by the database's clock
    Column("rows", Integer, nullable=False),  # in the chunk
    Column("chunk", LargeBinary, nullable=False),  # limen.sim.chunk
    Index(None, "at"),
)
