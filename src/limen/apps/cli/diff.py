"""`limen rules diff`: a rule file against the rules in force, and what the difference would do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limen.apps.cli import DONE, NO
from limen.apps.cli.guard_options import Guarded, guard_settings
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson
from limen.apps.cli.reviews import review_lines, verdict_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from limen.admin.editing import Edited

__all__ = ["diff"]

GUARDED = Guarded()


def diff(
    file: Path,
    /,
    *,
    prune: bool = False,
    log: tuple[Path, ...] = (),
    guarded: Guarded = GUARDED,
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> int:
    """Compare a rule file with the rules in force, and say what putting it in force would do. Changes nothing.

    Exit status 1: they differ.

    Args:
        file: A YAML or JSON file.
        prune: As with `apply`: rules that the file does not have would be deleted.
        log: An access log to judge by instead of the traffic that was sampled; may be given several times.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.rules.parse import rules_from_text

    wanted = {rule.id: rule.to_document() for rule in rules_from_text(file.read_bytes(), str(file))}
    edited = _edited(rules_db, wanted, prune, guarded, log)
    if edited.review is None:
        print(json.dumps({"differs": False}) if as_json else "no difference")
        return DONE
    found = {**edited.review.to_document(), "warnings": list(edited.warnings)}
    print(json.dumps({"differs": True, **found}) if as_json else "\n".join(_lines(found)))
    return NO


def _lines(found: Mapping[str, Any]) -> list[str]:
    return [*review_lines(found), *(f"odd: {warning}" for warning in found["warnings"]), *verdict_lines(found)]


def _edited(
    rules_db: str, wanted: Mapping[str, Mapping[str, Any]], prune: bool, guarded: Guarded, log: tuple[Path, ...]
) -> Edited:
    import asyncio

    from limen.admin.repository import Repository
    from limen.admin.service import AdminService
    from limen.apps.guarding import guard_for
    from limen.apps.judging import judge_by_log

    async def look() -> Edited:
        async with Repository(rules_db) as repository:
            guard = guard_for(guard_settings(guarded), repository, judge_by_log(log) if log else None)
            service = AdminService(repository, guard=guard)
            return await service.apply(wanted, prune, dry_run=True)

    return asyncio.run(look())
