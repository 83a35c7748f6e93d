"""Whether the user may do what decisions need. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from limen.stores.valkey.doctor.facts import Facts
from limen.stores.valkey.doctor.finding import Finding, fail, ok, warn
from limen.stores.valkey.doctor.needs import KEYS, NEEDS, Need

__all__ = ["decision", "permissions"]

REFUSED_KEY = re.compile(r"access (?!channel)")
"""How servers of all versions begin to say that it is not the command but its key that the user may not touch."""


def permissions(facts: Facts) -> Finding:
    """Names every command that is missing."""
    missing = [need for need in NEEDS if need.command in facts.refused]
    if not missing:
        return ok("permissions", f"lets the user run all {len(NEEDS)} commands that are needed")
    names = ", ".join(need.command for need in missing)
    advice = f"add to the ACL of the user: {_rules(missing, facts)}"
    if all(need.optional for need in missing):
        sentence = f"does not let the user run {names}: how it keeps buckets was not looked at"
        return warn("permissions", sentence, advice)
    said = facts.refused[missing[0].command]
    return fail("permissions", f"does not let the user run {names} ({said})", advice)


def decision(facts: Facts) -> Finding:
    """Whether a script can do all that at once."""
    if not facts.undecided:
        return ok("decision", "has loaded a script and decided")
    return fail("decision", f"cannot decide: {facts.undecided}", "until it can, every decision is made without it")


def _rules(missing: Iterable[Need], facts: Facts) -> str:
    """What an ACL lacks."""
    keys = {need for need in missing if REFUSED_KEY.search(facts.refused[need.command])}
    rules = [need.rule for need in missing if need not in keys]
    return " ".join([*rules, f"~{KEYS}"] if keys else rules)
