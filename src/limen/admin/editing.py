"""One way in for every change of rules: made, looked at by the guard, and written, all of it or nothing.

The guard replays traffic, and thousands of rules take a while to read: seconds, and a transaction that changes
something is a lock that everybody else waits for. So a change is prepared and judged outside of the transaction; inside
it is only made sure that the rules still are those that were judged, else everything begins again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from limen.admin.background import in_background
from limen.admin.precondition import Precondition
from limen.admin.records import DELETED, Signature, StoredRule
from limen.admin.repository import Repository
from limen.admin.stored_rules import Good, document_of, readable_rules, salvaged, text_of
from limen.errors import Conflict, RuleError
from limen.rules.checks import findings
from limen.rules.diff import differences, differences_to_document
from limen.rules.ruleset import RuleSet

if TYPE_CHECKING:
    from limen.admin.change import Change
    from limen.admin.guard import Reviewing
    from limen.admin.review import Review

__all__ = ["Document", "Edited", "Editor", "Edits", "difference_since"]

Document = Mapping[str, Any]
Edits = Mapping[str, Document | None]
"""Rule id to what it shall be; None: deleted."""
Rows = tuple[StoredRule, ...]

TRIES = 3
LONGEST_DIFFERENCE = 16 << 10
"""Of a difference that is longer as JSON the audit log holds only which fields it touches."""


class Edited(NamedTuple):
    """What a change of rules did, or would have done."""

    done: dict[str, str]
    """Rule id to `created`, `changed` or `deleted`; rules that were left alone are not there."""
    rules: dict[str, StoredRule]
    """What is there now of the rules that were put."""
    review: Review | None = None
    """What the guard said; None: there is no guard, or nothing to do."""
    warnings: tuple[str, ...] = ()
    """What is odd about the rules that were put, in sentences: those that never decide, and contradictions."""


class _Plan(NamedTuple):
    """A change, prepared."""

    there: Rows
    texts: dict[str, str]
    """Rule id to the document that is to be stored, or `DELETED`."""
    differences: dict[str, list[dict[str, Any]]]
    before: RuleSet
    after: RuleSet
    warnings: tuple[str, ...]
    """What is odd about the rules that are put, or becomes odd by them."""


class Editor:
    """Changes rules.

    Args:
        repository: the rules database.
        guard: is asked first; None: nobody is.
    """

    def __init__(self, repository: Repository, guard: Reviewing | None = None) -> None:
        self._repository = repository
        self._guard = guard
        self._turn = asyncio.Lock()
        self._good: Good = {}
        """The rules that were there last time: what did not change is not read again."""

    async def edit(
        self,
        choose: Callable[[Rows], Edits],
        by: Signature,
        *,
        action: str,
        conditions: Mapping[str, Precondition],
        dry_run: bool,
        guard: Reviewing | None = None,
    ) -> Edited:
        """Change rules: all that are chosen, or none.

        Args:
            choose: what to change, of the rules that are there. It is asked again when they have changed meanwhile.
            by: who changes them.
            action: for the history: put, apply, delete, rollback, promote, approve.
            conditions: what is expected to be there, by rule id.
            dry_run: do everything but the change itself. The guard refuses nothing then.
            guard: is asked in the place of the usual one.

        Raises:
            RuleError: a rule, or the set that they would be part of, is not valid.
            Conflict: a condition does not hold, the guard refuses, or others are faster three times.
        """
        asked = guard or self._guard
        if dry_run:  # nobody who wants to change something waits for those who only look
            return await self._edit(choose, by, action, conditions, dry_run, asked)
        async with self._turn:  # those who ask here do not get in each other's way
            return await self._edit(choose, by, action, conditions, dry_run, asked)

    async def _edit(
        self,
        choose: Callable[[Rows], Edits],
        by: Signature,
        action: str,
        conditions: Mapping[str, Precondition],
        dry_run: bool,
        guard: Reviewing | None,
    ) -> Edited:
        for _ in range(TRIES):
            plan = await self._prepared(await self._repository.rules(), choose, conditions)
            if not plan.texts:
                return Edited({}, {})
            ask = guard and (guard.look if dry_run else guard.review)
            review = await ask(plan.before, plan.after, by, action=action) if ask else None
            async with self._repository.change(dry_run, by) as change:
                if await change.rules() != plan.there:
                    continue
                edited = await _carry_out(change, plan, action)
                if guard and review and not dry_run:
                    await guard.enter(change, review)
            return edited._replace(review=review)
        if guard:
            raise Conflict("others are changing the rules all the time; try again", None)
        async with self._repository.change(dry_run, by) as change:  # while nobody else can
            plan = await self._prepared(await change.rules(), choose, conditions)
            return await _carry_out(change, plan, action)

    async def _prepared(
        self, there: Rows, choose: Callable[[Rows], Edits], conditions: Mapping[str, Precondition]
    ) -> _Plan:
        versions = {row.id: row.version for row in there}
        for rule_id, condition in conditions.items():
            condition.check(f"rule {rule_id!r}", versions.get(rule_id))
        # In a thread: a set of a thousand rules, or one of 1 MiB, must not hold up requests.
        plan, self._good = await in_background(_planned, there, choose(there), self._good)
        return plan


def _planned(there: Rows, edits: Edits, good: Good) -> tuple[_Plan, Good]:
    """The change, and the rules that are there now.

    Raises:
        RuleError: what is to be put is not valid, alone or beside the rules that are there.
    """
    rows = {row.id: row for row in there}
    texts = {
        rule_id: DELETED if document is None else text_of(document)
        for rule_id, document in edits.items()
        if document is not None or rule_id in rows
    }
    put = [_row(rule_id, text) for rule_id, text in texts.items() if text != DELETED]
    made = {rule.id: rule for rule in readable_rules(put)}
    old = salvaged(there, good)
    rules = {rule.id: rule for rule in old.ruleset.rules if rule.id not in texts} | made
    after = RuleSet(sorted(rules.values(), key=lambda rule: rule.id))
    plan = _Plan(
        there,
        texts,
        {rule_id: _difference(rows.get(rule_id), text) for rule_id, text in texts.items()},
        old.ruleset,
        after,
        tuple(str(finding) for finding in findings(after.rules, about=made)),
    )
    return plan, old.good


def _row(rule_id: str, text: str) -> StoredRule:
    return StoredRule(rule_id, text, 0, 0, 0)


def _difference(before: StoredRule | None, text: str) -> list[dict[str, Any]]:
    found = differences_to_document(
        differences(_document(before), None if text == DELETED else json.loads(text)),
    )
    if len(json.dumps(found)) <= LONGEST_DIFFERENCE:
        return found
    return [{"field": each["field"], "kind": each["kind"]} for each in found]


def _document(row: StoredRule | None) -> Document | None:
    """What lies there, as far as it can be read."""
    if row is None:
        return None
    try:
        return document_of(row)
    except RuleError:
        return {"id": row.id, "unreadable": True}


def difference_since(rule_id: str, seen: str, current: StoredRule | None) -> list[dict[str, Any]]:
    """What others did to a rule since somebody saw this document of it."""
    before = None if seen == DELETED else _document(_row(rule_id, seen))
    return differences_to_document(differences(before, _document(current)))


async def _carry_out(change: Change, plan: _Plan, action: str) -> Edited:
    there = {row.id for row in plan.there}
    done: dict[str, str] = {}
    rules: dict[str, StoredRule] = {}
    await change.expect(plan.texts)
    for rule_id, text in plan.texts.items():
        detail = {"differences": plan.differences[rule_id]}
        if text == DELETED:
            await change.delete_rule(rule_id, detail={**detail, "with": action} if action != "delete" else detail)
            done[rule_id] = "deleted"
        else:
            rules[rule_id] = await change.put_rule(rule_id, text, action=action, detail=detail)
            done[rule_id] = "changed" if rule_id in there else "created"
    return Edited(done, rules, warnings=plan.warnings)
