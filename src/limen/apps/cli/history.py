"""What rules were, the way back, and the tables that hold it: `limen rules history`, `rollback`, `migrate`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from limen.apps.cli import DONE, NO
from limen.apps.cli.guard_options import Guarded, Signed, signed_by
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson, Whole
from limen.apps.cli.proposals import with_proposing
from limen.apps.cli.rules import with_repository, with_service

if TYPE_CHECKING:
    from limen.admin.service import PutRule

__all__ = ["history", "migrate", "rollback", "when"]

NOTHING_SAID = Signed()
GUARDED = Guarded()


def history(rule: str, /, *, most: Whole = 50, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> None:
    """Show what a rule was: who changed it, when, why, and what the change did. The newest comes first.

    Args:
        rule: Id of the rule; one that was deleted too.
        most: How many versions.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.history_bodies import history_body

    versions = with_service(rules_db, lambda service: service.versions(rule))
    if not versions:
        raise _unknown(f"there never was a rule {rule!r}")
    shown = history_body(rule, versions, None, max(1, most))
    if as_json:
        print(json.dumps(shown))
        return
    for each in shown["versions"]:
        print("\n".join(_lines(each)))


def rollback(
    rule: str,
    version: Whole,
    /,
    *,
    signed: Signed = NOTHING_SAID,
    guarded: Guarded = GUARDED,
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> int:
    """Put a rule back to what it was at a version, as a new version. A deleted rule comes back.

    Args:
        rule: Id of the rule.
        version: As `limen rules history` shows it.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.errors import GuardRefused

    by = signed_by(signed)
    try:
        put = with_proposing(rules_db, guarded, lambda proposing: proposing.service.rollback(rule, version, by=by))
    except GuardRefused as refused:
        told = json.dumps({"refused": str(refused), "preview": dict(refused.preview)})
        print(told if as_json else f"limen: {refused}", file=sys.stdout if as_json else sys.stderr)
        return NO
    if put is None:
        raise _unknown(f"there is no version {version} of a rule {rule!r}; limen rules history shows what there is")
    _tell(put, version, as_json)
    return DONE


def migrate(*, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> None:
    """Bring the tables of the rules database to the form that this Limen needs.

    Those who run go on meanwhile.

    Args:
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    before, after = with_repository(rules_db, lambda repository: repository.migrate())
    if as_json:
        print(json.dumps({"before": before, "after": after}))
    elif before == after:
        print(f"nothing to do: the tables are at {after}")
    else:
        print(f"from {before or 'nothing'} to {after}")


def _tell(put: PutRule, version: int, as_json: bool) -> None:
    from limen.admin.bodies import rule_body

    said = f"rule {put.rule.id} is what it was at version {version}; that is version {put.rule.version} now"
    print(json.dumps(rule_body(put.rule)) if as_json else said)


def _lines(version: dict[str, Any]) -> list[str]:
    from limen.rules.diff import Difference, differences_to_lines

    found = [Difference(**{"before": None, "after": None, **each}) for each in version["diff"]]
    why = f": {version['reason']}" if version["reason"] else ""
    first = f"{version['version']}  {when(version['at'])}  {version['action']} by {version['author']}{why}"
    return [first, *(f"   {line}" for line in differences_to_lines(found))]


def when(unix_s: int) -> str:
    """A moment for people, such as `2026-11-30 19:45:00Z`."""
    try:
        return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return str(unix_s)


def _unknown(sentence: str) -> Exception:
    from limen.errors import UsageError

    return UsageError(sentence)
