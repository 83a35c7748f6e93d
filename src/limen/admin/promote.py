"""Promoting: the candidate of a rule becomes its limit, as one more version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from limen.admin.precondition import ANYTHING, Precondition
from limen.admin.records import UNSIGNED, Signature
from limen.admin.service import AdminService, PutRule
from limen.admin.stored_rules import document_of
from limen.errors import Conflict

__all__ = ["promote", "promoted"]

REPLACED = ("candidate", "capacity", "refill_per_sec")


def promoted(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a rule with a candidate, once that is its limit."""
    kept = {name: value for name, value in document.items() if name not in REPLACED}
    return {**kept, "limit": document["candidate"]}


async def promote(
    service: AdminService,
    rule_id: str,
    condition: Precondition = ANYTHING,
    dry_run: bool = False,
    by: Signature = UNSIGNED,
) -> PutRule | None:
    """Put the candidate of a rule in force. None: there is no such rule.

    Raises:
        RuleError: the rule cannot be read.
        Conflict: it has no candidate, `condition` does not hold, or the guard refuses.
    """
    stored = await service.rule(rule_id)
    if stored is None:
        return None
    document, name = document_of(stored), f"rule {rule_id!r}"
    condition.check(name, stored.version)
    if document.get("candidate") is None:
        advice = 'put one beside its limit first, such as "candidate": "50/minute"'
        raise Conflict(f"{name} has no candidate; {advice}", stored.version)
    unchanged = {rule_id: Precondition({stored.version})}
    edited = await service.edit(
        {rule_id: promoted(document)}, by, action="promote", conditions=unchanged, dry_run=dry_run
    )
    return PutRule(edited.rules[rule_id], False, edited)
