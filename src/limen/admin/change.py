"""Changing the rules database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.api_keys import Secrets
from limen.admin.precondition import ANYTHING, Precondition
from limen.admin.queries import read_client, read_rule, read_rules
from limen.admin.records import StoredClient, StoredRule
from limen.admin.schema import api_keys, clients, rules
from limen.errors import Conflict

__all__ = ["Change"]


class Change:
    """What can be done within one change. Made by `Repository.change`."""

    def __init__(self, connection: AsyncConnection, revision: int, now: int, secrets: Secrets) -> None:
        self._connection = connection
        self._stamp = {"revision": revision, "updated_at": now}
        self._secrets = secrets
        self.revision = revision

    async def rules(self) -> tuple[StoredRule, ...]:
        """Every rule, those included that this change has put."""
        return await read_rules(self._connection)

    async def rule(self, rule_id: str) -> StoredRule | None:
        return await read_rule(self._connection, rule_id)

    async def client(self, client: str) -> StoredClient | None:
        return await read_client(self._connection, client)

    async def put_rule(self, rule_id: str, document: str, condition: Precondition = ANYTHING) -> StoredRule:
        """Make a rule, or replace it.

        Raises:
            Conflict: `condition` does not hold for the version that is there.
        """
        last = await self._last_version(rule_id)
        condition.check(f"rule {rule_id!r}", await self._rule_version(rule_id))
        values = {"document": document, "version": last + 1, "deleted": False, **self._stamp}
        if last:
            await self._run(update(rules).where(rules.c.id == rule_id).values(values))
        else:
            await self._run(insert(rules).values(id=rule_id, **values))
        return StoredRule(rule_id, document, last + 1, self.revision, self._stamp["updated_at"])

    async def delete_rule(self, rule_id: str, condition: Precondition = ANYTHING) -> bool:
        """Delete a rule; False when there is none.

        Raises:
            Conflict: `condition` does not hold for the version that is there.
        """
        version = await self._rule_version(rule_id)
        condition.check(f"rule {rule_id!r}", version)
        if version is None:
            return False
        values = {"document": "", "version": version + 1, "deleted": True, **self._stamp}
        await self._run(update(rules).where(rules.c.id == rule_id).values(values))
        return True

    async def put_client(
        self, client: str, plan: str | None, keys: Iterable[str] | None = None, condition: Precondition = ANYTHING
    ) -> StoredClient:
        """Make a client, or replace it.

        Args:
            keys: its API keys from now on, in plain; None keeps those that it has.
            condition: on the revision of the client.

        Raises:
            Conflict: `condition` does not hold, or a key belongs to another client.
        """
        found = await self.client(client)
        condition.check(f"client {client!r}", found and found.revision)
        values = {"plan": plan, **self._stamp}
        if found:
            await self._run(update(clients).where(clients.c.id == client).values(values))
        else:
            await self._run(insert(clients).values(id=client, **values))
        digests = found.digests if found else ()
        if keys is not None:
            digests = await self._replace_keys(client, keys, found and found.revision)
        return StoredClient(client, plan, digests, self.revision)

    async def delete_client(self, client: str, condition: Precondition = ANYTHING) -> bool:
        """Delete a client and its API keys; False when there is none.

        Raises:
            Conflict: `condition` does not hold for the revision of the client.
        """
        found = await self.client(client)
        condition.check(f"client {client!r}", found and found.revision)
        if found is None:
            return False
        await self._run(delete(api_keys).where(api_keys.c.client_id == client))
        await self._run(delete(clients).where(clients.c.id == client))
        return True

    async def _replace_keys(self, client: str, keys: Iterable[str], current: int | None) -> tuple[str, ...]:
        known_as = [self._secrets.digests(key) for key in keys]
        digests = sorted({today for today, *_ in known_as})
        await self._run(delete(api_keys).where(api_keys.c.client_id == client))
        anywhere = api_keys.c.digest.in_([digest for digests_of_key in known_as for digest in digests_of_key])
        taken = await self._run(select(api_keys.c.client_id).where(anywhere).limit(1))
        owner = taken.scalar_one_or_none()
        if owner is not None:
            raise Conflict(f"one of these API keys belongs to client {owner!r}; take it from there first", current)
        rows = [{"digest": digest, "client_id": client, "revision": self.revision} for digest in digests]
        if rows:
            await self._run(insert(api_keys).values(rows))
        return tuple(digests)

    async def _last_version(self, rule_id: str) -> int:
        """The version that the rule got last, when it was deleted too; 0 when there never was one."""
        return (await self._run(select(rules.c.version).where(rules.c.id == rule_id))).scalar_one_or_none() or 0

    async def _rule_version(self, rule_id: str) -> int | None:
        found = await self.rule(rule_id)
        return found and found.version

    async def _run(self, statement: Any) -> Any:
        return await self._connection.execute(statement)
