"""History and audit log as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from limen.admin.audit import AuditEntry
from limen.admin.records import DELETED, RuleVersion
from limen.errors import Problem, RuleError
from limen.rules.diff import differences, differences_to_document

__all__ = ["entry_body", "history_body", "rollback_from", "version_body"]

Document = Mapping[str, Any]


def rollback_from(document: object) -> tuple[int, str | None]:
    """(version, reason) of `{"version": 3, "reason": "…"}`; the reason may be left out.

    Raises:
        RuleError: every problem, each naming its field.
    """
    if not isinstance(document, Mapping):
        raise RuleError([Problem('say which version: {"version": 3}')])
    hint = "there is no such field; a rollback has version and reason"
    problems = [Problem(hint, field=str(name)) for name in document if name not in ("version", "reason")]
    version, reason = document.get("version"), document.get("reason")
    if type(version) is not int or not 1 <= version < 2**31:
        problems.append(
            Problem(f"{version!r} is not a version; write a whole number from the history", None, "version")
        )
    if reason is not None and not (isinstance(reason, str) and len(reason) <= 256 and reason.isprintable()):
        problems.append(Problem("is at most 256 printable characters", field="reason"))
    if problems:
        raise RuleError(problems)
    return int(str(version)), reason


def history_body(rule_id: str, versions: Sequence[RuleVersion], before: int | None, most: int) -> dict[str, Any]:
    """The newest versions, newest first, each with what it did to the one before it.

    Args:
        versions: all of them, oldest first.
        before: only those with a number below this.
        most: how many.
    """
    older: list[RuleVersion | None] = [None, *versions[:-1]]
    pairs = [(old, new) for old, new in zip(older, versions, strict=True) if before is None or new.version < before]
    shown = [version_body(new, old) for old, new in reversed(pairs[-most:])]
    return {"rule": rule_id, "versions": shown}


def version_body(version: RuleVersion, before: RuleVersion | None = None) -> dict[str, Any]:
    """A version, and what it did to the version before it."""
    old, new = _document(before), _document(version)
    fields = {name: value for name, value in version._asdict().items() if name not in ("rule_id", "document")}
    return {**fields, "document": new, "diff": differences_to_document(differences(old, new))}


def _document(version: RuleVersion | None) -> Document | None:
    """What it was; None: nothing, or deleted. What somebody wrote by other means may be no document."""
    if version is None or version.document == DELETED:
        return None
    try:
        document = json.loads(version.document)
    except (ValueError, TypeError, RecursionError):
        document = None
    return document if isinstance(document, dict) else {"unreadable": True}


def entry_body(entry: AuditEntry) -> dict[str, Any]:
    """A row of the audit log, its detail as an object where it is one."""
    try:
        detail = json.loads(entry.detail)
    except ValueError:
        detail = entry.detail
    return {**entry._asdict(), "detail": detail}
