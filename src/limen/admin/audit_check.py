"""Whether the database still holds what was recorded: the chain of the audit log, every version, every rule in force.

The chain says that no row of the log was changed. Each row about a rule holds a hash of its document, so the log says
the same of the history; and the newest version in the history says what each rule must be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.audit import AuditEntry, Chain
from limen.admin.history import audit_pages
from limen.admin.schema import rules
from limen.admin.schema_history import rule_versions

__all__ = ["Checked", "Recorded", "check_audit"]

RULE = "rule:"
MOST_FINDINGS = 100
Version = tuple[str, int]


class Checked(NamedTuple):
    """What was found."""

    rows: int
    """Rows of the audit log that are right, from the first on."""
    head: str
    """The hash of the last of them: whoever notes it elsewhere can tell whether rows were cut off the end."""
    findings: tuple[str, ...]
    """What is wrong, in sentences; none: everything is as it was recorded."""


class Recorded:
    """What the log says about the versions of rules."""

    def __init__(self) -> None:
        self.digests: dict[Version, str | None] = {}

    def note(self, entries: Iterable[AuditEntry]) -> None:
        for entry in entries:
            if entry.subject.startswith(RULE) and entry.action.startswith("rule."):
                detail = _object(entry.detail)
                version = detail.get("version")
                if type(version) is int:
                    self.digests[entry.subject.removeprefix(RULE), version] = detail.get("sha256")


async def check_audit(connection: AsyncConnection, noted: tuple[int, str] | None = None) -> Checked:
    """Follow the log from its beginning, then look at history and rules.

    Args:
        noted: (number, hash) of a row, as somebody noted them elsewhere.
    """
    chain, recorded, findings = Chain(), Recorded(), list[str]()
    seen = None
    async for entries in audit_pages(connection):
        recorded.note(entries)
        seen = next((entry for entry in entries if noted and entry.seq == noted[0]), seen)
        if not chain.follow(entries):
            break
    if chain.broken is not None:
        findings.append(f"audit row {chain.broken.seq}: {chain.broken.why}")
    elif noted and (seen is None or seen.hash != noted[1]):
        findings.append(f"audit row {noted[0]} {'is not there' if seen is None else 'has another hash than was noted'}")
    if chain.broken is None:
        findings += await _history_findings(connection, recorded)
    head = chain.last.hash if chain.last else ""
    return Checked(chain.length, head, tuple(findings[:MOST_FINDINGS]))


async def _history_findings(connection: AsyncConnection, recorded: Recorded) -> list[str]:
    """Where history or rules are not what the log says."""
    columns = rule_versions.c
    kept: dict[Version, str | None] = {}
    newest: dict[str, tuple[int, str | None]] = {}
    listed = select(columns.rule_id, columns.version, columns.document).order_by(columns.rule_id, columns.version)
    for rule_id, version, document in await connection.execute(listed):
        kept[rule_id, version] = _digest(document)
        newest[rule_id] = version, kept[rule_id, version]
    findings = [
        f"rule {rule_id!r}: version {version} in the history is not what was recorded"
        for (rule_id, version), digest in recorded.digests.items()
        if kept.get((rule_id, version), "gone") != digest
    ]
    for rule_id, version, document in await connection.execute(select(rules.c.id, rules.c.version, rules.c.document)):
        if newest.get(rule_id) != (version, _digest(document)):
            findings.append(f"rule {rule_id!r} was changed by other means than Limen")
    return findings


def _digest(document: object) -> str | None:
    """As the log has it; None for a rule that was deleted."""
    if not document:
        return None
    data = document if isinstance(document, bytes) else str(document).encode(errors="surrogatepass")
    return sha256(data).hexdigest()


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
