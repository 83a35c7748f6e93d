"""Reading and writing what was: versions of rules and the audit log, within a transaction that somebody has begun."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import takewhile
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from limen.admin.audit import BEGINNING, AuditEntry, seal
from limen.admin.records import DELETED, RuleVersion, Signature
from limen.admin.schema import meta
from limen.admin.schema_history import audit, rule_versions

__all__ = [
    "Happening", "append_audit", "audit_pages", "read_audit", "read_once_good", "read_version", "read_versions",
    "signed",
]  # fmt: skip

PAGE = 1000
MAX_VERSION = 2**31 - 1
LOOK_BACK = 20
LONGEST_AUTHOR, LONGEST_ROLE, LONGEST_REASON = 256, 16, 1000

Happening = tuple[str, str, str]
"""(action, subject, detail as JSON text)"""

VERSION = select(*(rule_versions.c[name] for name in RuleVersion._fields))
ENTRY = select(*(audit.c[name] for name in AuditEntry._fields))


def signed(by: Signature) -> Signature:
    """A signature as every database can keep it: of printable characters, and not too long."""
    return by._replace(
        author=printable(by.author, LONGEST_AUTHOR),
        role=printable(by.role, LONGEST_ROLE),
        reason=printable(by.reason, LONGEST_REASON),
    )


def printable(text: str, longest: int) -> str:
    """The text, with a sign in the place of each character that could not be shown."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text[:longest])


async def append_audit(connection: AsyncConnection, now: int, by: Signature, done: Sequence[Happening]) -> None:
    """Put rows behind the last one. The row of `meta` is the lock: nobody else does so meanwhile."""
    if not done:
        return
    await connection.execute(update(meta).values({meta.c.id: meta.c.id}))
    newest = await connection.execute(select(audit.c.seq, audit.c.hash).order_by(audit.c.seq.desc()).limit(1))
    seq, previous = newest.one_or_none() or (0, BEGINNING)
    rows: list[dict[str, Any]] = []
    for action, subject, detail in done:
        seq += 1
        entry = seal(AuditEntry(seq, now, by.author, by.role, action, subject, detail, previous, ""))
        previous = entry.hash
        rows.append(entry._asdict())
    await connection.execute(insert(audit), rows)


async def read_audit(connection: AsyncConnection, before: int | None, most: int) -> tuple[AuditEntry, ...]:
    """The newest rows, newest first; only those with a number below `before`."""
    wanted = ENTRY if before is None else ENTRY.where(audit.c.seq < before)
    found = await connection.execute(wanted.order_by(audit.c.seq.desc()).limit(most))
    return tuple(AuditEntry(*row) for row in found)


async def audit_pages(connection: AsyncConnection) -> AsyncIterator[list[AuditEntry]]:
    """The whole log, oldest first, so many rows at a time."""
    seen: int | None = None
    while True:
        further = ENTRY if seen is None else ENTRY.where(audit.c.seq > seen)
        found = await connection.execute(further.order_by(audit.c.seq).limit(PAGE))
        entries = [AuditEntry(*row) for row in found]
        yield entries
        if len(entries) < PAGE:
            return
        seen = entries[-1].seq


async def read_versions(connection: AsyncConnection, rule_id: str) -> tuple[RuleVersion, ...]:
    """All versions of a rule, oldest first."""
    found = VERSION.where(rule_versions.c.rule_id == rule_id).order_by(rule_versions.c.version)
    return tuple(RuleVersion(*row) for row in await connection.execute(found))


async def read_version(connection: AsyncConnection, rule_id: str, version: int) -> RuleVersion | None:
    if not 0 < version <= MAX_VERSION:  # no database would be asked for such a number
        return None
    one = VERSION.where(rule_versions.c.rule_id == rule_id, rule_versions.c.version == version)
    row = (await connection.execute(one)).one_or_none()
    return RuleVersion(*row) if row else None


async def read_once_good(connection: AsyncConnection, rule_ids: Sequence[str]) -> tuple[RuleVersion, ...]:
    """The latest versions of each rule, those of a rule that was deleted since not among them."""
    found: list[RuleVersion] = []
    for rule_id in rule_ids:
        newest = VERSION.where(rule_versions.c.rule_id == rule_id).order_by(rule_versions.c.version.desc())
        rows = await connection.execute(newest.limit(LOOK_BACK))
        versions = (RuleVersion(*row) for row in rows)
        found += takewhile(lambda version: version.document != DELETED, versions)
    return tuple(found)
