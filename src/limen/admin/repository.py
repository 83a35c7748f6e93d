"""The rules database, for everybody who reads or changes it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self

from limen.admin.api_keys import KEPT, Secrets
from limen.admin.records import Snapshot, StoredClient, StoredRule
from limen.errors import MissingExtra, RulesUnavailable

try:
    from sqlalchemy import select, update

    from limen.admin.change import Change
    from limen.admin.database import Database
    from limen.admin.presence import Presence
    from limen.admin.queries import read_client, read_clients, read_revision, read_rule, read_rules
    from limen.admin.schema import meta
except ModuleNotFoundError as error:
    raise MissingExtra("a rules database", "service") from error

__all__ = ["Repository"]


class Repository:
    """The rules database. It connects when it is first asked, and again whenever it was away.

    Args:
        url: `sqlite:///path`, `sqlite:////absolute/path` or `postgresql://…`.
        secret: the deployment secret when it is kept elsewhere; else the database makes one and every process that
            shares the database shares it.
        previous: the secret before it, while it is being replaced; KEPT for the one that the database made.
        now: Unix time in seconds.

    Attributes:
        presence: who runs on these rules, and whether an outage is rehearsed.

    Every method raises `RulesUnavailable` while the database does not answer.
    """

    def __init__(
        self,
        url: str,
        secret: bytes | None = None,
        now: Callable[[], float] | None = None,
        *,
        previous: bytes | None = None,
    ) -> None:
        self._database = Database(url)
        self._secret, self._previous = secret, previous
        self._kept: str | None = None
        self._now = now or time.time
        self.presence = Presence(self._database, now)

    @classmethod
    async def open(cls, url: str, secret: bytes | None = None, now: Callable[[], float] | None = None) -> Self:
        """A repository whose database is there and has its tables."""
        repository = cls(url, secret, now)
        try:
            await repository.revision()
        except BaseException:
            await repository.close()
            raise
        return repository

    async def close(self) -> None:
        await self._database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def revision(self) -> int:
        """The number of changes so far."""
        async with self._database.reading() as connection:
            return await read_revision(connection)

    async def secrets(self) -> Secrets:
        """The deployment secret, which API keys and bucket names are hashed with, and the one before it."""
        return self.secrets_with(await self.kept_secret())

    def secrets_with(self, kept: str | None) -> Secrets:
        """The same, when the one that the database made is known, in hex.

        Raises:
            RulesUnavailable: that one is needed and not given.
        """
        made = None if kept is None else bytes.fromhex(kept)
        current = made if self._secret is None else self._secret
        previous = made if self._previous == KEPT.encode() else self._previous
        if current is None or (made is None and self._needs_kept):
            raise RulesUnavailable("the rules were saved while LIMEN_SECRET was set; set it again")
        return Secrets(current, previous)

    async def kept_secret(self) -> str | None:
        """The one that the database made, in hex; None when it is of no use here."""
        if self._kept is None and self._needs_kept:
            async with self._database.reading() as connection:
                self._kept = str((await connection.execute(select(meta.c.secret))).scalar_one())
        return self._kept

    @property
    def _needs_kept(self) -> bool:
        return self._secret is None or self._previous == KEPT.encode()

    async def snapshot(self) -> Snapshot:
        """Everything, as it was at one moment."""
        async with self._database.reading() as connection:
            return Snapshot(
                await read_revision(connection), await read_rules(connection), await read_clients(connection)
            )

    async def rule(self, rule_id: str) -> StoredRule | None:
        async with self._database.reading() as connection:
            return await read_rule(connection, rule_id)

    async def client(self, client: str) -> StoredClient | None:
        async with self._database.reading() as connection:
            return await read_client(connection, client)

    @asynccontextmanager
    async def change(self, dry_run: bool = False) -> AsyncIterator[Change]:
        """One change, under one new revision: everything in the block happens, or nothing when it raises.

        The revision is taken first and its row is the lock: changes happen one after the other, what a change reads
        stays true until it ends, and nobody sees a revision before the one that precedes it.

        Args:
            dry_run: do everything, then undo it.
        """
        secrets = await self.secrets()
        async with self._database.writing() as connection:
            moved_on = update(meta).values(revision=meta.c.revision + 1).returning(meta.c.revision)
            revision = int((await connection.execute(moved_on)).scalar_one())
            yield Change(connection, revision, int(self._now()), secrets)
            if dry_run:
                await connection.rollback()
