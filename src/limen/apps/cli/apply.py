"""`limen rules apply`: a rule file put in force, past the guard."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from limen.apps.cli import DONE, NO
from limen.apps.cli.guard_options import Guarded, Signed, signed_by
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson
from limen.apps.cli.proposals import told, with_proposing
from limen.apps.cli.reviews import review_lines

if TYPE_CHECKING:
    from limen.admin.editing import Edited
    from limen.errors import GuardRefused

__all__ = ["apply"]

NOTHING_SAID = Signed()
GUARDED = Guarded()


def apply(
    file: Path,
    /,
    *,
    prune: bool = False,
    propose: Annotated[bool, Parameter(negative="")] = False,
    signed: Signed = NOTHING_SAID,
    guarded: Guarded = GUARDED,
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> int:
    """Put the rules of a file in force: all of them, or none when one is not valid.

    What it would do is looked at first. Exit status 1: that is dangerous, and nothing was changed; look at it with
    `limen rules diff`.

    Args:
        file: A YAML or JSON file.
        prune: Delete the rules that the file does not have.
        propose: Do not put them in force: let somebody else approve them. Needs a reason.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.errors import GuardRefused
    from limen.rules.parse import rules_from_text

    wanted = {rule.id: rule.to_document() for rule in rules_from_text(file.read_bytes(), str(file))}
    if propose:
        return _propose(wanted, prune, signed, guarded, rules_db, as_json)
    by = signed_by(signed)
    try:
        edited = with_proposing(rules_db, guarded, lambda proposing: proposing.service.apply(wanted, prune, by=by))
    except GuardRefused as refused:
        return _refused(refused, as_json)
    _print(edited, as_json)
    return DONE


def _propose(
    wanted: Mapping[str, Mapping[str, Any]], prune: bool, signed: Signed, guarded: Guarded, rules_db: str, as_json: bool
) -> int:
    by = signed_by(signed)
    found = with_proposing(rules_db, guarded, lambda proposing: proposing.propose_all(wanted, prune, by))
    if found is None:
        print(json.dumps({"proposal": None}) if as_json else "nothing to do")
    else:
        told(found.id, found, as_json)
    return DONE


def _print(edited: Edited, as_json: bool) -> None:
    if as_json:
        print(json.dumps(edited.done))
        return
    print("\n".join(f"{what}  {rule}" for rule, what in edited.done.items()) or "nothing to do")
    for warning in edited.warnings:
        print(f"limen: {warning}", file=sys.stderr)


def _refused(refused: GuardRefused, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"refused": str(refused), "preview": dict(refused.preview)}))
        return NO
    print(f"limen: {refused}", file=sys.stderr)
    for line in review_lines(refused.preview):
        print(f"limen: {line}", file=sys.stderr)
    return NO
