"""What the rules database knows of buckets that move to a new limit: one text beside each rule. Pure.

    {"generation": 7, "how": "proportional", "before": {"limit": "100/minute"}, "until": 1764530000}

Every gateway reads the same, and after a restart too. A text that somebody spoilt means: as they are.
"""

from __future__ import annotations

import json
from typing import Any

from limen.admin.records import StoredRule
from limen.admin.strict_json import json_from_text
from limen.core.carry import CARRY_OVERS, Carry
from limen.errors import RuleError, UsageError
from limen.rules.carrying import limit_of, next_carry
from limen.rules.model import Rule
from limen.rules.parse import rule_from_mapping

__all__ = ["carried_rule", "next_carry_text"]

US = 1_000_000
LIMIT_FIELDS = ("algorithm", "limit", "capacity", "refill_per_sec")


def next_carry_text(there: StoredRule | None, document: str, version: int, now: int) -> str | None:
    """What is to be kept beside a rule that gets this document.

    Args:
        there: what is replaced, one that was deleted too; None when there never was anything.
        document: JSON text.
        version: that the rule is then at.
        now: Unix time in seconds.
    """
    before, after = _rule(None if there is None else there.document), _rule(document)
    if there is None or after is None:
        return None
    running = _carry(there.carry)
    if before is not None:
        before = before.carried_by(running)
    elif running is not None:  # it was deleted meanwhile, and its buckets are stamped still
        before = Rule(after.id, limit="unlimited").carried_by(running)
    carry = next_carry(before, after, version, now * US)
    if carry is None:
        return None
    if running is not None and carry == running:
        return there.carry
    limits = json.loads(there.carry or "{}").get("before") if running is not None else _limits(there.document)
    said = {"generation": carry.generation, "how": carry.how, "before": limits, "until": carry.until_us // US}
    return json.dumps(said)


def carried_rule(rule: Rule, stored: StoredRule) -> Rule:
    """The rule, with what is kept beside it."""
    return rule if stored.carry is None and rule.carry is None else rule.carried_by(_carry(stored.carry))


def _limits(document: str) -> dict[str, Any]:
    found = json_from_text(document)
    assert isinstance(found, dict)  # a rule was read from it
    return {name: found[name] for name in LIMIT_FIELDS if found.get(name) is not None}


def _rule(document: str | None) -> Rule | None:
    if not document:
        return None
    try:
        return rule_from_mapping(json_from_text(document))
    except (RuleError, UsageError):
        return None


def _carry(text: str | None) -> Carry | None:
    if text is None:
        return None
    try:
        said = json_from_text(text)
        assert isinstance(said, dict)
        before = said["before"]
        limit = None if before is None else limit_of(Rule("before", **before))
        generation, how, until = said["generation"], said["how"], said["until"]
        if type(generation) is not int or type(until) is not int or generation < 1 or how not in CARRY_OVERS:
            return None
        return Carry(generation, how, limit, until * US)
    except (RuleError, UsageError, KeyError, TypeError, AssertionError):
        return None
