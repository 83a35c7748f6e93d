"""Reading the rules database, within a transaction that somebody else has begun."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy import Column, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.records import StoredClient, StoredRule
from limen.admin.schema import api_keys, clients, meta, rules

__all__ = ["read_client", "read_clients", "read_counters", "read_revision", "read_rule", "read_rules"]

API_KEY = select(api_keys.c.digest, api_keys.c.client_id).order_by(api_keys.c.digest)
CLIENT = select(clients.c.id, clients.c.plan, clients.c.revision).order_by(clients.c.id)
RULE = select(*(rules.c[name] for name in StoredRule._fields)).where(rules.c.deleted.is_(False)).order_by(rules.c.id)


PAGE = 250
"""Rows that are read at once: what takes a millisecond, for whoever else has something to do meanwhile."""


async def read_rules(connection: AsyncConnection) -> tuple[StoredRule, ...]:
    return tuple([StoredRule(*row) async for row in _paged(connection, RULE, rules.c.id)])


async def _paged(connection: AsyncConnection, rows: Select[Any], key: Column[str]) -> AsyncIterator[Any]:
    """Rows in the order of a key, which is their first column. Within a transaction that sees one moment."""
    found = list(await connection.execute(rows.limit(PAGE)))
    while found:
        for row in found:
            yield row
        if len(found) < PAGE:
            return
        found = list(await connection.execute(rows.where(key > found[-1][0]).limit(PAGE)))


async def read_rule(connection: AsyncConnection, rule_id: str) -> StoredRule | None:
    row = (await connection.execute(RULE.where(rules.c.id == rule_id))).one_or_none()
    return StoredRule(*row) if row else None


async def read_clients(connection: AsyncConnection) -> tuple[StoredClient, ...]:
    digests = defaultdict(list)
    async for digest, client in _paged(connection, API_KEY, api_keys.c.digest):
        digests[client].append(digest)
    found = [row async for row in _paged(connection, CLIENT, clients.c.id)]
    return tuple(StoredClient(name, plan, tuple(digests[name]), revision) for name, plan, revision in found)


async def read_client(connection: AsyncConnection, client: str) -> StoredClient | None:
    found = await connection.execute(select(clients.c.plan, clients.c.revision).where(clients.c.id == client))
    row = found.one_or_none()
    if row is None:
        return None
    keys = await connection.execute(select(api_keys.c.digest).where(api_keys.c.client_id == client))
    return StoredClient(client, row.plan, tuple(sorted(keys.scalars())), row.revision)


async def read_counters(connection: AsyncConnection) -> tuple[int, int]:
    """The revision of the rules, and how often something was said of single clients."""
    revision, standing = (await connection.execute(select(meta.c.revision, meta.c.standing))).one()
    return int(revision), int(standing)


async def read_revision(connection: AsyncConnection) -> int:
    return int((await connection.execute(select(meta.c.revision))).scalar_one())
