"""`limen rules promote`: the candidate of a rule becomes its limit."""

from __future__ import annotations

import json
import sys

from limen.apps.cli import DONE, NO
from limen.apps.cli.guard_options import Guarded, Signed, signed_by
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson
from limen.apps.cli.proposals import with_proposing

__all__ = ["promote"]

NOTHING_SAID = Signed()
GUARDED = Guarded()


def promote(
    rule: str,
    /,
    *,
    signed: Signed = NOTHING_SAID,
    guarded: Guarded = GUARDED,
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> int:
    """Make the candidate of a rule its limit, as a new version.

    Exit status 1: the guard holds it up.

    Args:
        rule: Id of the rule.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.bodies import rule_body
    from limen.admin.promote import promote as put_in_force
    from limen.errors import GuardRefused, UsageError

    by = signed_by(signed)
    try:
        put = with_proposing(rules_db, guarded, lambda proposing: put_in_force(proposing.service, rule, by=by))
    except GuardRefused as refused:
        told = json.dumps({"refused": str(refused), "preview": dict(refused.preview)})
        print(told if as_json else f"limen: {refused}", file=sys.stdout if as_json else sys.stderr)
        return NO
    if put is None:
        raise UsageError(f"there is no rule {rule!r}; limen rules list shows what there is")
    body = rule_body(put.rule)
    said = f"the limit of {rule} is {body['limit']} now; that is version {body['version']}"
    print(json.dumps(body) if as_json else said)
    return DONE
