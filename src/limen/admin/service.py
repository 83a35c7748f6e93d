"""Changing rules and clients: what is checked, in which order, and who is told. Knows nothing of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from limen.admin.audit import AuditEntry
from limen.admin.clients import client_fields, client_name
from limen.admin.drills import drill_from
from limen.admin.editing import Document, Edited, Editor, Edits, difference_since
from limen.admin.precondition import ANYTHING, Precondition
from limen.admin.records import DELETED, UNSIGNED, Drill, Fleet, RuleVersion, Signature, StoredClient, StoredRule
from limen.admin.repository import Repository
from limen.admin.stored_rules import document_of, rule_of, text_of
from limen.errors import Conflict, GuardRefused, Problem, RuleError, UsageError
from limen.rules.model import ID
from limen.rules.parse import rule_from_mapping

if TYPE_CHECKING:
    from limen.admin.guard import Reviewing

__all__ = ["AdminService", "Changed", "PutClient", "PutRule"]

Changed = Callable[[], Awaitable[None]]
"""Somebody should look at the database now. Must not raise."""
NOTHING_EXPECTED: Mapping[str, Precondition] = MappingProxyType({})


async def nobody() -> None:
    """There is nobody here to tell; gateways follow at their next look."""


class PutRule(NamedTuple):
    rule: StoredRule
    created: bool
    edited: Edited
    """With what the guard said, and what is odd about it."""


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

    def __init__(self, repository: Repository, *, changed: Changed = nobody, guard: Reviewing | None = None) -> None:
        self._repository = repository
        self._editor = Editor(repository, guard)
        self.changed = changed

    async def rules(self) -> tuple[int, tuple[StoredRule, ...]]:
        """(revision, all rules as they are stored)."""
        snapshot = await self._repository.snapshot()
        return snapshot.revision, snapshot.rules

    async def rule(self, rule_id: str) -> StoredRule | None:
        return await self._repository.rule(rule_id) if ID.fullmatch(rule_id) else None

    async def versions(self, rule_id: str) -> tuple[RuleVersion, ...]:
        """Everything that a rule ever was, oldest first; nothing when there never was such a rule."""
        return await self._repository.versions(rule_id) if ID.fullmatch(rule_id) else ()

    async def edit(
        self,
        edits: Edits,
        by: Signature = UNSIGNED,
        *,
        action: str = "put",
        conditions: Mapping[str, Precondition] = NOTHING_EXPECTED,
        dry_run: bool = False,
        guard: Reviewing | None = None,
    ) -> Edited:
        """Change rules: all of them, or none. Every other change of rules goes this way too.

        Args:
            edits: rule id to the document that it shall have; None: it shall be gone.
            action: for the history: put, apply, delete, rollback, promote, approve.
            conditions: on the versions that are there.
            dry_run: check everything, change nothing; the guard says what it thinks and refuses nothing.
            guard: is asked in the place of the usual one.

        Raises:
            RuleError: a rule, or the set that they would be part of, is not valid.
            Conflict: a rule is at another version, or the guard refuses.
        """
        written: dict[str, Document | None] = {}
        expected = dict(conditions)
        for rule_id, document in edits.items():
            written[rule_id], seen = (None, ANYTHING) if document is None else _written(document, rule_id)
            expected[rule_id] = expected.get(rule_id, ANYTHING).and_also(seen)
        return await self._edit(lambda there: written, by, action, expected, dry_run, guard)

    async def put_rule(
        self,
        rule_id: str,
        document: object,
        condition: Precondition = ANYTHING,
        dry_run: bool = False,
        by: Signature = UNSIGNED,
    ) -> PutRule:
        """Make or replace a rule.

        Args:
            document: the fields of the rule; `id` may be left out. With a `version`, as `GET` shows it, the rule must
                still be at that version.
            condition: on the version that is there.
            dry_run: check everything, change nothing.
            by: who does it.

        Raises:
            RuleError: the rule, or the set that it would be part of, is not valid.
            Conflict: the rule is at another version, or the guard refuses.
        """
        written, seen = _written(document, rule_id)
        await asyncio.to_thread(rule_from_mapping, written)  # what is not valid is told before anything is locked
        expected = {rule_id: condition.and_also(seen)}
        edited = await self._edit(lambda there: {rule_id: written}, by, "put", expected, dry_run)
        return PutRule(edited.rules[rule_id], edited.done[rule_id] == "created", edited)

    async def apply(
        self,
        documents: Mapping[str, Document],
        prune: bool = False,
        *,
        dry_run: bool = False,
        by: Signature = UNSIGNED,
    ) -> Edited:
        """Make or replace many rules at once: all of them, or none when one is not valid.

        Args:
            documents: id to document. Rules that are so already are left alone.
            prune: delete the rules that are not among them.
            dry_run: check everything, change nothing.
            by: who does it.

        Raises:
            RuleError: a rule, or the set that they would be part of, is not valid.
            Conflict: the guard refuses.
        """
        written = {rule_id: _written(document, rule_id)[0] for rule_id, document in documents.items()}
        texts = {rule_id: text_of(document) for rule_id, document in written.items()}

        def choose(there: tuple[StoredRule, ...]) -> Edits:
            stored = {row.id: row.document for row in there}
            gone = {rule_id: None for rule_id in stored if rule_id not in texts} if prune else {}
            return gone | {name: written[name] for name, text in texts.items() if stored.get(name) != text}

        return await self._edit(choose, by, "apply", {}, dry_run)

    async def delete_rule(
        self, rule_id: str, condition: Precondition = ANYTHING, dry_run: bool = False, by: Signature = UNSIGNED
    ) -> bool:
        """Delete a rule, one that cannot be read too; False when there is none.

        Raises:
            Conflict: `condition` does not hold, or the guard refuses.
        """
        if not ID.fullmatch(rule_id):
            return False
        edited = await self._edit(lambda there: {rule_id: None}, by, "delete", {rule_id: condition}, dry_run)
        return bool(edited.done)

    async def rollback(
        self,
        rule_id: str,
        version: int,
        condition: Precondition = ANYTHING,
        dry_run: bool = False,
        by: Signature = UNSIGNED,
    ) -> PutRule | None:
        """Put a rule back to what it was at a version, as a new version. A deleted rule comes back. None: there never
        was such a version.

        Raises:
            UsageError: the rule was deleted in that version.
            RuleError: what it was then is not valid any more.
            Conflict: `condition` does not hold, or the guard refuses.
        """
        found = await self._repository.version(rule_id, version) if ID.fullmatch(rule_id) else None
        if found is None:
            return None
        document = _recalled(found)
        edited = await self._edit(lambda there: {rule_id: document}, by, "rollback", {rule_id: condition}, dry_run)
        return PutRule(edited.rules[rule_id], edited.done[rule_id] == "created", edited)

    async def _edit(
        self,
        choose: Callable[[tuple[StoredRule, ...]], Edits],
        by: Signature,
        action: str,
        conditions: Mapping[str, Precondition],
        dry_run: bool,
        guard: Reviewing | None = None,
    ) -> Edited:
        try:
            edited = await self._editor.edit(
                choose, by, action=action, conditions=conditions, dry_run=dry_run, guard=guard
            )
        except GuardRefused:
            raise
        except Conflict as conflict:
            await self._tell_what_changed(conflict, conditions)
            raise
        await self._tell(dry_run or not edited.done)
        return edited

    async def _tell_what_changed(self, conflict: Conflict, conditions: Mapping[str, Precondition]) -> None:
        """Add to a conflict what others did since its author looked, where one version says when that was."""
        if len(conditions) != 1:
            return
        ((rule_id, condition),) = conditions.items()
        seen = None if condition.seen is None else await self._repository.version(rule_id, condition.seen)
        if seen is None or not ID.fullmatch(rule_id):
            return
        there = await self._repository.rule(rule_id)
        conflict.members = {"seen": seen.version, "diff": difference_since(rule_id, seen.document, there)}

    async def client(self, client: str) -> StoredClient | None:
        return await self._repository.client(client_name(client))

    async def put_client(
        self,
        client: str,
        document: object,
        condition: Precondition = ANYTHING,
        dry_run: bool = False,
        by: Signature = UNSIGNED,
    ) -> PutClient:
        """Make or replace a client.

        Args:
            document: `{plan, api_keys}`; without api_keys the client keeps those that it has.

        Raises:
            RuleError: a field is wrong.
            Conflict: `condition` does not hold, or a key belongs to another client.
        """
        name, fields = client_name(client), client_fields(document)
        async with self._repository.change(dry_run, by) as change:
            created = await change.client(name) is None
            stored = await change.put_client(name, fields.plan, fields.api_keys, condition)
        await self._tell(dry_run)
        return PutClient(stored, created)

    async def delete_client(
        self, client: str, condition: Precondition = ANYTHING, dry_run: bool = False, by: Signature = UNSIGNED
    ) -> bool:
        """Delete a client and its API keys; False when there is none.

        Raises:
            Conflict: `condition` does not hold.
        """
        async with self._repository.change(dry_run, by) as change:
            deleted = await change.delete_client(client_name(client), condition)
        await self._tell(dry_run)
        return deleted

    async def fleet(self) -> Fleet:
        """Who runs on these rules, and what is rehearsed."""
        return await self._repository.presence.fleet()

    async def start_drill(self, document: object, by: Signature = UNSIGNED) -> Drill:
        """Rehearse an outage on every gateway, within seconds and for a time.

        Raises:
            RuleError: a field is wrong.
        """
        drill = await self._repository.presence.start_drill(drill_from(document), by)
        await self.changed()
        return drill

    async def end_drill(self, by: Signature = UNSIGNED) -> Drill | None:
        """End what is rehearsed; what that was, if anything."""
        drill = await self._repository.presence.end_drill(by)
        await self.changed()
        return drill

    async def note(self, action: str, subject: str, detail: Mapping[str, Any], by: Signature = UNSIGNED) -> None:
        """Record what is about to be done outside of the rules database, such as a grant in the store.

        Raises:
            RulesUnavailable: it could not be recorded, so it must not be done.
        """
        async with self._repository.change(by=by, counter=None) as change:
            change.record(action, subject, detail)

    async def audit(self, before: int | None = None, most: int = 100) -> tuple[AuditEntry, ...]:
        """The newest rows of the audit log, newest first; only those with a number below `before`."""
        return await self._repository.audit(before, most)

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
    fields = {name: value for name, value in document.items() if name not in ("version", "warnings")}  # as we show it
    return {"id": rule_id, **fields}, ANYTHING if version is None else Precondition({version})


def _recalled(version: RuleVersion) -> Document:
    """The document of a version, valid today."""
    if version.document == DELETED:
        raise UsageError(
            f"rule {version.rule_id!r} was deleted in version {version.version}; delete it, or name another"
        )
    try:
        stored = StoredRule(version.rule_id, version.document, version.version, version.revision, version.at)
        rule_of(stored)
        return document_of(stored)
    except RuleError as error:
        why = f"version {version.version} is not valid any more; take another, or put the rule anew: "
        raise RuleError([each._replace(message=why + each.message) for each in error.problems]) from error
