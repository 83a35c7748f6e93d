"""Changing the rules database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.api_keys import Secrets, fingerprint
from limen.admin.audit import canonical
from limen.admin.carrying import next_carry_text
from limen.admin.history import Happening, append_audit, read_version, signed
from limen.admin.precondition import ANYTHING, Precondition
from limen.admin.queries import read_client, read_rule, read_rules
from limen.admin.records import DELETED, UNSIGNED, RuleVersion, Signature, StoredClient, StoredRule
from limen.admin.schema import api_keys, clients, rules
from limen.admin.schema_history import rule_versions
from limen.errors import Conflict

__all__ = ["Change"]

AT_ONCE = 500
UNKNOWN = "unknown"
"""Who wrote a version that did not come through Limen."""


class Change:
    """What can be done within one change. Made by `Repository.change`.

    Attributes:
        revision: of what is changed; the one after the change.
        now: Unix time in seconds.
        by: who changes it.
        connection: its transaction, for parts with tables of their own.
    """

    def __init__(
        self, connection: AsyncConnection, revision: int, now: int, secrets: Secrets, by: Signature = UNSIGNED
    ) -> None:
        self.connection = connection
        self.revision = revision
        self.now = now
        self.by = signed(by)
        self._stamp = {"revision": revision, "updated_at": now}
        self._secrets = secrets
        self._versions: list[dict[str, Any]] = []
        self._noted: dict[str, int] = {}
        self._heads: dict[str, tuple[Any, int]] = {}
        self._new: list[dict[str, Any]] = []
        self._replaced: list[dict[str, Any]] = []
        self._done: list[Happening] = []

    async def run(self, statement: Any) -> Any:
        """Run a statement within the change."""
        await self._flush()
        return await self.connection.execute(statement)

    def record(self, action: str, subject: str, detail: Mapping[str, Any] | None = None) -> None:
        """Note in the audit log what this change does. Everything that changes anything does so.

        Args:
            action: such as `rule.put`.
            subject: to what, such as `rule:search`.
            detail: what else is worth knowing; no secrets. The reason is added by itself.
        """
        why = {"reason": self.by.reason, "confirmed": self.by.confirmed}
        given = {name: value for name, value in why.items() if value}
        self._done.append((action, subject, canonical({**given, **(detail or {})})))

    async def finish(self) -> bool:
        """Write down what was done, when all else is; False when nothing was."""
        await self._flush()
        if self._versions:
            await self.connection.execute(insert(rule_versions), self._versions)
        await append_audit(self.connection, self.now, self.by, self._done)
        return bool(self._done)

    async def rules(self) -> tuple[StoredRule, ...]:
        """Every rule, those included that this change has put."""
        await self._flush()
        return await read_rules(self.connection)

    async def expect(self, rule_ids: Collection[str]) -> None:
        """Read at once where these rules stand: changing many of them takes a few statements then, not two for each."""
        wanted = sorted(rule_ids)
        for start in range(0, len(wanted), AT_ONCE):
            self._heads |= await self._read_heads(wanted[start : start + AT_ONCE])

    async def rule(self, rule_id: str) -> StoredRule | None:
        await self._flush()
        return await read_rule(self.connection, rule_id)

    async def version(self, rule_id: str, version: int) -> RuleVersion | None:
        """What a rule was at a version, of those before this change."""
        return await read_version(self.connection, rule_id, version)

    async def client(self, client: str) -> StoredClient | None:
        return await read_client(self.connection, client)

    async def put_rule(
        self,
        rule_id: str,
        document: str,
        condition: Precondition = ANYTHING,
        *,
        action: str = "put",
        detail: Mapping[str, Any] | None = None,
    ) -> StoredRule:
        """Make a rule, or replace it.

        Args:
            action: what is done, for the history.
            detail: what else the audit log should know.

        Raises:
            Conflict: `condition` does not hold for the version that is there.
        """
        head = await self._head(rule_id)
        condition.check(f"rule {rule_id!r}", head.current)
        version = head.last + 1
        carry = next_carry_text(head.row, document, version, self.now)
        values = {"document": document, "version": version, "deleted": False, "carry": carry, **self._stamp}
        self._write(rule_id, values, head)
        self._keep(rule_id, version, document, action, detail)
        return StoredRule(rule_id, document, version, self.revision, self.now, carry)

    async def delete_rule(
        self,
        rule_id: str,
        condition: Precondition = ANYTHING,
        *,
        action: str = "delete",
        detail: Mapping[str, Any] | None = None,
    ) -> bool:
        """Delete a rule; False when there is none.

        Raises:
            Conflict: `condition` does not hold for the version that is there.
        """
        head = await self._head(rule_id)
        condition.check(f"rule {rule_id!r}", head.current)
        if head.current is None:
            return False
        version = head.last + 1
        carry = None if head.row is None else head.row.carry  # its buckets are stamped still
        values = {"document": DELETED, "version": version, "deleted": True, "carry": carry, **self._stamp}
        self._write(rule_id, values, head)
        self._keep(rule_id, version, DELETED, action, detail)
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
            await self.run(update(clients).where(clients.c.id == client).values(values))
        else:
            await self.run(insert(clients).values(id=client, **values))
        digests = found.digests if found else ()
        if keys is not None:
            digests = await self._replace_keys(client, keys, found and found.revision)
        shown = [fingerprint(digest) for digest in digests]
        self.record("client.put", f"client:{client}", {"plan": plan, "fingerprints": shown})
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
        await self.run(delete(api_keys).where(api_keys.c.client_id == client))
        await self.run(delete(clients).where(clients.c.id == client))
        self.record("client.delete", f"client:{client}", {"plan": found.plan})
        return True

    async def _replace_keys(self, client: str, keys: Iterable[str], current: int | None) -> tuple[str, ...]:
        known_as = [self._secrets.digests(key) for key in keys]
        digests = sorted({today for today, *_ in known_as})
        await self.run(delete(api_keys).where(api_keys.c.client_id == client))
        anywhere = api_keys.c.digest.in_([digest for digests_of_key in known_as for digest in digests_of_key])
        taken = await self.run(select(api_keys.c.client_id).where(anywhere).limit(1))
        owner = taken.scalar_one_or_none()
        if owner is not None:
            raise Conflict(f"one of these API keys belongs to client {owner!r}; take it from there first", current)
        rows = [{"digest": digest, "client_id": client, "revision": self.revision} for digest in digests]
        if rows:
            await self.run(insert(api_keys).values(rows))
        return tuple(digests)

    def _keep(self, rule_id: str, version: int, document: str, action: str, detail: Mapping[str, Any] | None) -> None:
        """Note a version, for the history and the audit log."""
        self._note_version(rule_id, version, self.revision, document, action, self.by, self.now)
        what = {"version": version, "revision": self.revision, **(detail or {})}
        digest = {"sha256": sha256(document.encode(errors="surrogatepass")).hexdigest()} if document else {}
        self.record(f"rule.{action}", f"rule:{rule_id}", {**what, **digest})

    def _note_version(
        self, rule_id: str, version: int, revision: int, document: str, action: str, by: Signature, at: int
    ) -> None:
        row = RuleVersion(rule_id, version, revision, document, action, by.author, by.role, by.reason, at)
        self._versions.append(row._asdict())
        self._noted[rule_id] = version

    def _write(self, rule_id: str, values: dict[str, Any], head: _Head) -> None:
        """Put a row there, together with others."""
        if head.row is None:
            self._new.append({"id": rule_id, **values})
        else:
            self._replaced.append({"at": rule_id, **values})

    async def _flush(self) -> None:
        new, replaced = self._new, self._replaced
        self._new, self._replaced = [], []
        if new:
            await self.connection.execute(insert(rules), new)
        if replaced:
            there: dict[str, Any] = {name: bindparam(name) for name in replaced[0] if name != "at"}
            await self.connection.execute(update(rules).where(rules.c.id == bindparam("at")).values(there), replaced)

    async def _head(self, rule_id: str) -> _Head:
        """Where a rule stands. What somebody wrote there by other means comes into the history now, or it is lost."""
        if rule_id not in self._heads:
            self._heads |= await self._read_heads([rule_id])
        row, kept = self._heads.pop(rule_id)
        kept = max(kept, self._noted.get(rule_id, 0))
        if row is None:
            return _Head(None, kept, None)
        version = row.version if isinstance(row.version, int) else 0  # SQLite holds whatever was written there
        if version > kept:
            by = Signature(UNKNOWN, "", "")
            self._note_version(rule_id, version, row.revision, row.document, UNKNOWN, by, row.updated_at)
        stored = StoredRule(*(getattr(row, name) for name in StoredRule._fields))
        return _Head(None if row.deleted else row.version, max(version, kept), stored)

    async def _read_heads(self, rule_ids: Sequence[str]) -> dict[str, tuple[Any, int]]:
        """Rule id to (its row, the highest version in the history); (None, 0): there never was such a rule."""
        rows = {row.id: row for row in await self.run(select(rules).where(rules.c.id.in_(rule_ids)))}
        highest = select(rule_versions.c.rule_id, func.max(rule_versions.c.version)).group_by(rule_versions.c.rule_id)
        found = await self.run(highest.where(rule_versions.c.rule_id.in_(rule_ids)))
        kept = {rule_id: version for rule_id, version in found}  # noqa: C416 - a row is no pair for dict
        return {rule_id: (rows.get(rule_id), kept.get(rule_id, 0)) for rule_id in rule_ids}


class _Head(NamedTuple):
    """Where a rule stands."""

    current: int | None
    """Its version; None: it is not there."""
    last: int
    """The highest version that it ever had; 0: none."""
    row: StoredRule | None
    """It, also when it is deleted."""
