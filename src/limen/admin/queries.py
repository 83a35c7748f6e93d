"""Reading the rules database, within a transaction that somebody else has begun."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.records import StoredClient, StoredRule
from limen.admin.schema import api_keys, clients, meta, rules

__all__ = ["read_client", "read_clients", "read_revision", "read_rule", "read_rules"]

RULE = select(*(rules.c[name] for name in StoredRule._fields)).where(rules.c.deleted.is_(False)).order_by(rules.c.id)


async def read_rules(connection: AsyncConnection) -> tuple[StoredRule, ...]:
    return tuple(StoredRule(*row) for row in await connection.execute(RULE))


async def read_rule(connection: AsyncConnection, rule_id: str) -> StoredRule | None:
    row = (await connection.execute(RULE.where(rules.c.id == rule_id))).one_or_none()
    return StoredRule(*row) if row else None


async def read_clients(connection: AsyncConnection) -> tuple[StoredClient, ...]:
    digests = defaultdict(list)
    for client, digest in await connection.execute(select(api_keys.c.client_id, api_keys.c.digest)):
        digests[client].append(digest)
    found = await connection.execute(select(clients.c.id, clients.c.plan, clients.c.revision).order_by(clients.c.id))
    return tuple(StoredClient(name, plan, tuple(sorted(digests[name])), revision) for name, plan, revision in found)


async def read_client(connection: AsyncConnection, client: str) -> StoredClient | None:
    found = await connection.execute(select(clients.c.plan, clients.c.revision).where(clients.c.id == client))
    row = found.one_or_none()
    if row is None:
        return None
    keys = await connection.execute(select(api_keys.c.digest).where(api_keys.c.client_id == client))
    return StoredClient(client, row.plan, tuple(sorted(keys.scalars())), row.revision)


async def read_revision(connection: AsyncConnection) -> int:
    return int((await connection.execute(select(meta.c.revision))).scalar_one())
