"""The rules database, for everybody who reads or changes it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Self

from limen.admin.api_keys import KEPT, Secrets
from limen.admin.audit import AuditEntry
from limen.admin.records import UNSIGNED, RuleVersion, Signature, Snapshot, StoredClient, StoredRule
from limen.errors import MissingExtra, RulesUnavailable

try:
    from sqlalchemy import select, update
    from sqlalchemy.ext.asyncio import AsyncConnection

    from limen.admin.audit_check import Checked, check_audit
    from limen.admin.change import Change
    from limen.admin.database import Database
    from limen.admin.drivers import notify
    from limen.admin.history import read_audit, read_once_good, read_version, read_versions
    from limen.admin.presence import Presence
    from limen.admin.proposals import Proposals
    from limen.admin.queries import read_client, read_clients, read_revision, read_rule, read_rules
    from limen.admin.samples import Samples
    from limen.admin.schema import meta
    from limen.admin.standing_table import StandingTable
    from limen.admin.token_table import TokenTable
    from limen.admin.watches import Watches
except ModuleNotFoundError as error:
    raise MissingExtra("a rules database", "service") from error

__all__ = ["Repository"]

REVISION = "revision"


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
        standing: what was said of single clients.
        tokens: who may use the admin API.

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
        self.standing = StandingTable(self._database)
        self.tokens = TokenTable(self._database)
        self.proposals = Proposals(self._database)
        self.watches = Watches(self._database, now)
        self.samples = Samples(self._database, now)

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

    async def rules(self) -> tuple[StoredRule, ...]:
        """All rules, as they are stored."""
        async with self._database.reading() as connection:
            return await read_rules(connection)

    async def rule(self, rule_id: str) -> StoredRule | None:
        async with self._database.reading() as connection:
            return await read_rule(connection, rule_id)

    async def client(self, client: str) -> StoredClient | None:
        async with self._database.reading() as connection:
            return await read_client(connection, client)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """One state of the database, for parts with tables of their own."""
        async with self._database.reading() as connection:
            yield connection

    @asynccontextmanager
    async def change(
        self, dry_run: bool = False, by: Signature = UNSIGNED, counter: str | None = REVISION
    ) -> AsyncIterator[Change]:
        """One change, under one new revision: everything in the block happens, or nothing when it raises.

        The row of `meta` is taken first and is the lock: changes happen one after the other, what a change reads
        stays true until it ends, and nobody sees a revision before the one that precedes it. What was done is written
        into the audit log in the same transaction; a change that did nothing leaves no trace, and no new revision.

        Args:
            dry_run: do everything, then undo it.
            by: who does it.
            counter: the column of `meta` that moves on; None for what gateways need not learn.
        """
        secrets = await self.secrets()
        async with self._database.writing() as connection:
            moved = {meta.c.id: meta.c.id} if counter is None else {meta.c[counter]: meta.c[counter] + 1}
            lock = update(meta).values(moved).returning(meta.c[counter or REVISION])
            change = Change(
                connection, int((await connection.execute(lock)).scalar_one()), int(self._now()), secrets, by
            )
            yield change
            if dry_run or not await change.finish():
                await connection.rollback()
            elif counter is not None:
                await notify(connection)

    async def version(self, rule_id: str, version: int) -> RuleVersion | None:
        """What a rule was at a version."""
        async with self._database.reading() as connection:
            return await read_version(connection, rule_id, version)

    async def versions(self, rule_id: str) -> tuple[RuleVersion, ...]:
        """All versions of a rule, oldest first; none when there never was such a rule."""
        async with self._database.reading() as connection:
            return await read_versions(connection, rule_id)

    async def once_good(self, rule_ids: Sequence[str]) -> tuple[StoredRule, ...]:
        """What these rules were before, the latest versions of each: perhaps not readable either."""
        async with self._database.reading() as connection:
            found = await read_once_good(connection, rule_ids)
        return tuple(StoredRule(each.rule_id, each.document, each.version, each.revision, each.at) for each in found)

    async def audit(self, before: int | None = None, most: int = 100) -> tuple[AuditEntry, ...]:
        """The newest rows of the audit log, newest first; only those with a number below `before`."""
        async with self._database.reading() as connection:
            return await read_audit(connection, before, most)

    async def check_audit(self, noted: tuple[int, str] | None = None) -> Checked:
        """Whether the database holds what was recorded.

        Args:
            noted: (number, hash) of a row of the log, as somebody noted them elsewhere.
        """
        async with self._database.inspecting() as connection:
            return await check_audit(connection, noted)

    async def migrate(self) -> tuple[str | None, str]:
        """Bring the tables to the form that this Limen needs: the migrations (before, after); None: it was empty."""
        return await self._database.migrate()
