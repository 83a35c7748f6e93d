"""Tokens in the rules database: read, made, revoked, and when each was used last."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.database import Database
from limen.admin.schema_tokens import tokens
from limen.admin.tokens import StoredToken

__all__ = ["TokenTable", "insert_token", "read_token", "read_tokens", "revoke_token"]

ALL = select(*(tokens.c[name] for name in StoredToken._fields)).order_by(tokens.c.created, tokens.c.name, tokens.c.id)


class TokenTable:
    """Part of a `Repository`. Every method raises `RulesUnavailable` while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> tuple[StoredToken, ...]:
        """Every token there ever was, the oldest first."""
        async with self._database.reading() as connection:
            return await read_tokens(connection)

    async def note_use(self, used: Mapping[str, int]) -> None:
        """Keep when tokens were used last: id to Unix time. Nothing goes back."""
        async with self._database.single() as connection:
            for token_id, at in used.items():
                earlier = or_(tokens.c.last_used.is_(None), tokens.c.last_used < at)
                await connection.execute(update(tokens).where(tokens.c.id == token_id, earlier).values(last_used=at))


async def read_tokens(connection: AsyncConnection) -> tuple[StoredToken, ...]:
    return tuple(StoredToken(*row) for row in await connection.execute(ALL))


async def read_token(connection: AsyncConnection, token_id: str) -> StoredToken | None:
    row = (await connection.execute(ALL.where(tokens.c.id == token_id))).one_or_none()
    return StoredToken(*row) if row else None


async def insert_token(connection: AsyncConnection, token: StoredToken) -> None:
    await connection.execute(insert(tokens).values(token._asdict()))


async def revoke_token(connection: AsyncConnection, token_id: str, now: int) -> None:
    await connection.execute(update(tokens).where(tokens.c.id == token_id).values(revoked=now))
