"""Changes that wait for a second person, in the rules database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import insert, select, update

from limen.admin.change import Change
from limen.admin.database import Database
from limen.admin.schema_guard import proposals

__all__ = ["LASTS_S", "OPEN", "Proposal", "Proposals", "add", "decide", "renew"]

LASTS_S = 86_400
"""How long a proposal can be approved."""
OPEN, APPROVED, REJECTED = "open", "approved", "rejected"


class Proposal(NamedTuple):
    """A change that somebody wants. Times are Unix times in seconds."""

    id: int
    action: str
    """`put`, `apply`, `delete` or `promote`."""
    edits: Mapping[str, Mapping[str, Any] | None]
    """Documents by rule; None: it is to be deleted."""
    base: Mapping[str, int | None]
    """The versions of these rules when it was proposed; None: there was none."""
    preview: Mapping[str, Any]
    """What was said about it then."""
    author: str
    reason: str
    created: int
    expires: int
    state: str
    """`open`, `approved` or `rejected`."""
    decided_by: str | None = None
    decided_at: int | None = None
    decided_why: str | None = None
    revision: int | None = None
    """In which it went in."""


class Proposals:
    """Part of a `Repository`. Every method raises `RulesUnavailable` while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, number: int) -> Proposal | None:
        async with self._database.reading() as connection:
            row = (await connection.execute(select(proposals).where(proposals.c.id == number))).one_or_none()
            return None if row is None else _proposal(row)

    async def recent(self, most: int = 50) -> tuple[Proposal, ...]:
        """The newest first, those that are decided too."""
        async with self._database.reading() as connection:
            rows = await connection.execute(select(proposals).order_by(proposals.c.id.desc()).limit(most))
            return tuple(_proposal(row) for row in rows)


async def add(
    change: Change,
    action: str,
    edits: Mapping[str, Mapping[str, Any] | None],
    base: Mapping[str, int | None],
    preview: Mapping[str, Any],
) -> Proposal:
    """Propose something, within a transaction. Its author and the reason are those of the change."""
    made = Proposal(
        0, action, edits, base, preview, change.by.author, change.by.reason, change.now, change.now + LASTS_S, OPEN
    )
    texts = {name: json.dumps(getattr(made, name)) for name in ("edits", "base", "preview")}
    row = {**made._asdict(), **texts}
    del row["id"]
    number = (await change.run(insert(proposals).values(**row).returning(proposals.c.id))).scalar_one()
    return made._replace(id=number)


async def decide(change: Change, number: int, state: str, revision: int | None = None) -> bool:
    """Approve or reject an open one, within a transaction; False when it is not open."""
    values = {
        "state": state,
        "decided_by": change.by.author,
        "decided_at": change.now,
        "decided_why": change.by.reason,
        "revision": revision,
    }
    return bool((await change.run(_open(number).values(**values))).rowcount)


async def renew(change: Change, number: int, preview: Mapping[str, Any]) -> None:
    """Replace what was said about an open one."""
    await change.run(_open(number).values(preview=json.dumps(preview)))


def _open(number: int) -> Any:
    return update(proposals).where(proposals.c.id == number, proposals.c.state == OPEN)


def _proposal(row: Any) -> Proposal:
    texts = {name: json.loads(getattr(row, name)) for name in ("edits", "base", "preview")}
    return Proposal(**{**row._mapping, **texts})
