"""Changing rules and clients: what is checked, in which order, and who is told. Knows nothing of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from limen.admin.clients import client_fields, client_name
from limen.admin.drills import drill_from
from limen.admin.precondition import ANYTHING, Precondition
from limen.admin.records import Drill, Fleet, StoredClient, StoredRule
from limen.admin.repository import Repository
from limen.admin.stored_rules import readable_rules, text_of
from limen.errors import Problem, RuleError
from limen.rules.model import ID
from limen.rules.parse import rule_from_mapping
from limen.rules.ruleset import RuleSet

if TYPE_CHECKING:
    from limen.admin.change import Change

__all__ = ["AdminService", "Changed", "PutClient", "PutRule"]

Changed = Callable[[], Awaitable[None]]
"""Somebody should look at the database now. Must not raise."""


async def nobody() -> None:
    """There is nobody here to tell; gateways follow at their next look."""


class PutRule(NamedTuple):
    rule: StoredRule
    created: bool


class PutClient(NamedTuple):
    client: StoredClient
    created: bool


class AdminService:
    """What an operator can do.

    Args:
        repository: the rules database.
        changed: is awaited after each change, so that it is in force here when the change is answered.

    Every method raises `RulesUnavailable` while the database does not answer.
    """

    def __init__(self, repository: Repository, *, changed: Changed = nobody) -> None:
        self._repository = repository
        self.changed = changed

    async def rules(self) -> tuple[int, tuple[StoredRule, ...]]:
        """(revision, all rules as they are stored)."""
        snapshot = await self._repository.snapshot()
        return snapshot.revision, snapshot.rules

    async def rule(self, rule_id: str) -> StoredRule | None:
        return await self._repository.rule(rule_id) if ID.fullmatch(rule_id) else None

    async def put_rule(
        self, rule_id: str, document: object, condition: Precondition = ANYTHING, dry_run: bool = False
    ) -> PutRule:
        """Make or replace a rule.

        Args:
            document: the fields of the rule; `id` may be left out. With a `version`, as `GET` shows it, the rule must
                still be at that version.
            condition: on the version that is there.
            dry_run: check everything, change nothing.

        Raises:
            RuleError: the rule, or the set that it would be part of, is not valid.
            Conflict: the rule is at another version.
        """
        written, seen = _written(document, rule_id)
        await asyncio.to_thread(rule_from_mapping, written)  # a rule may be 1 MiB of conditions
        async with self._repository.change(dry_run) as change:
            there = await change.rule(rule_id)
            seen.check(f"rule {rule_id!r}", there and there.version)
            stored = await change.put_rule(rule_id, text_of(written), condition)
            await _check_set(change)
        await self._tell(dry_run)
        return PutRule(stored, there is None)

    async def apply(self, documents: Mapping[str, Mapping[str, Any]], prune: bool = False) -> dict[str, str]:
        """Make or replace many rules at once: all of them, or none when one is not valid.

        Args:
            documents: id to document.
            prune: delete the rules that are not among them.

        Returns what was done: id to `created`, `changed` or `deleted`. Rules that are so already are left alone.

        Raises:
            RuleError: a rule, or the set that they would be part of, is not valid.
        """
        done: dict[str, str] = {}
        texts = {rule_id: text_of(_written(document, rule_id)[0]) for rule_id, document in documents.items()}
        async with self._repository.change() as change:
            there = {rule.id: rule.document for rule in await change.rules()}
            for rule_id in there.keys() - texts.keys() if prune else ():
                await change.delete_rule(rule_id)
                done[rule_id] = "deleted"
            for rule_id, text in texts.items():
                if there.get(rule_id) != text:
                    await change.put_rule(rule_id, text)
                    done[rule_id] = "changed" if rule_id in there else "created"
            await _check_set(change)
        await self._tell(dry_run=not done)
        return done

    async def delete_rule(self, rule_id: str, condition: Precondition = ANYTHING, dry_run: bool = False) -> bool:
        """Delete a rule, one that cannot be read too; False when there is none.

        Raises:
            Conflict: `condition` does not hold.
        """
        if not ID.fullmatch(rule_id):
            return False
        async with self._repository.change(dry_run) as change:
            deleted = await change.delete_rule(rule_id, condition)
        await self._tell(dry_run)
        return deleted

    async def client(self, client: str) -> StoredClient | None:
        return await self._repository.client(client_name(client))

    async def put_client(
        self, client: str, document: object, condition: Precondition = ANYTHING, dry_run: bool = False
    ) -> PutClient:
        """Make or replace a client.

        Args:
            document: `{plan, api_keys}`; without api_keys the client keeps those that it has.

        Raises:
            RuleError: a field is wrong.
            Conflict: `condition` does not hold, or a key belongs to another client.
        """
        name, fields = client_name(client), client_fields(document)
        async with self._repository.change(dry_run) as change:
            created = await change.client(name) is None
            stored = await change.put_client(name, fields.plan, fields.api_keys, condition)
        await self._tell(dry_run)
        return PutClient(stored, created)

    async def delete_client(self, client: str, condition: Precondition = ANYTHING, dry_run: bool = False) -> bool:
        """Delete a client and its API keys; False when there is none.

        Raises:
            Conflict: `condition` does not hold.
        """
        async with self._repository.change(dry_run) as change:
            deleted = await change.delete_client(client_name(client), condition)
        await self._tell(dry_run)
        return deleted

    async def fleet(self) -> Fleet:
        """Who runs on these rules, and what is rehearsed."""
        return await self._repository.presence.fleet()

    async def start_drill(self, document: object) -> Drill:
        """Rehearse an outage on every gateway, within seconds and for a time.

        Raises:
            RuleError: a field is wrong.
        """
        drill = await self._repository.presence.start_drill(drill_from(document))
        await self.changed()
        return drill

    async def end_drill(self) -> Drill | None:
        """End what is rehearsed; what that was, if anything."""
        drill = await self._repository.presence.end_drill()
        await self.changed()
        return drill

    async def _tell(self, dry_run: bool) -> None:
        if not dry_run:
            await self.changed()


def _written(document: object, rule_id: str) -> tuple[dict[str, Any], Precondition]:
    """The document as it is to be stored, and what its writer had seen."""
    if not isinstance(document, Mapping):
        raise RuleError([Problem('a rule is an object such as {"limit": "100/minute", "key_by": ["client"]}', rule_id)])
    if document.get("id", rule_id) != rule_id:
        message = f"{document['id']!r} is not the id in the address, {rule_id!r}; leave it out or write the same"
        raise RuleError([Problem(message, rule_id, "id")])
    version = document.get("version")
    if version is not None and type(version) is not int:
        message = f"{version!r} is not a version; leave it out or write the whole number that you read"
        raise RuleError([Problem(message, rule_id, "version")])
    fields = {name: value for name, value in document.items() if name != "version"}
    return {"id": rule_id, **fields}, ANYTHING if version is None else Precondition({version})


async def _check_set(change: Change) -> None:
    """Within the change, so that two operators cannot each add a rule that is valid only without the other's."""
    stored = await change.rules()
    await asyncio.to_thread(lambda: RuleSet(readable_rules(stored)))
