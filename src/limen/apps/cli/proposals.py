"""Changes that wait for a second person, from a shell: listed, approved, rejected."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from limen.apps.cli.guard_options import Guarded, Signed, guard_settings, signed_by
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson, Whole

if TYPE_CHECKING:
    from limen.admin.proposals import Proposal
    from limen.admin.proposing import Proposing

__all__ = ["approve", "proposals", "reject", "told", "with_proposing"]

T = TypeVar("T")

NOTHING_SAID = Signed()
GUARDED = Guarded()


def proposals(*, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> None:
    """List the changes that wait for a second person, and the last ones that did.

    Args:
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.proposing import proposal_body

    found = with_proposing(rules_db, GUARDED, lambda proposing: proposing.recent())
    shown = [proposal_body(each, time.time()) for each in found]
    print(json.dumps({"proposals": shown}) if as_json else "\n".join(map(_line, shown)) or "nothing was proposed")


def approve(
    proposal: Whole,
    /,
    *,
    signed: Signed = NOTHING_SAID,
    guarded: Guarded = GUARDED,
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> None:
    """Put a change in force that somebody else has proposed.

    Args:
        proposal: Its number.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    by = signed_by(signed)
    told(proposal, with_proposing(rules_db, guarded, lambda proposing: proposing.approve(proposal, by)), as_json)


def reject(
    proposal: Whole,
    /,
    *,
    signed: Signed = NOTHING_SAID,
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> None:
    """Decide against a change that was proposed.

    Args:
        proposal: Its number.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    by = signed_by(signed)
    told(proposal, with_proposing(rules_db, GUARDED, lambda proposing: proposing.reject(proposal, by)), as_json)


def with_proposing(rules_db: str, guarded: Guarded, ask: Callable[[Proposing], Awaitable[T]]) -> T:
    """What the rules database answers.

    Raises:
        RulesUnavailable: it does not.
    """
    import asyncio

    from limen.admin.proposing import Proposing
    from limen.admin.repository import Repository
    from limen.admin.service import AdminService
    from limen.apps.guarding import guard_for

    settings = guard_settings(guarded)

    async def answer() -> T:
        async with Repository(rules_db) as repository:
            guard = guard_for(settings, repository)
            service = AdminService(repository, guard=guard)
            return await ask(Proposing(repository, service, guard, settings.percent))

    return asyncio.run(answer())


def told(number: int, found: Proposal | None, as_json: bool) -> None:
    """Print what became of a proposal.

    Raises:
        UsageError: there is none of that number.
    """
    from limen.admin.proposing import proposal_body
    from limen.errors import UsageError

    if found is None:
        raise UsageError(f"there is no proposal {number}; limen rules proposals shows what there is")
    shown = proposal_body(found, time.time())
    print(json.dumps(shown) if as_json else _line(shown))


def _line(shown: dict[str, Any]) -> str:
    rules = ", ".join(sorted(shown["edits"]))
    decided = f" by {shown['decided_by']}" if shown["decided_by"] else ""
    return (
        f"{shown['id']}  {shown['state']}{decided}  {shown['action']} {rules}  of {shown['author']}: {shown['reason']}"
    )
