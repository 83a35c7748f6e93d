"""Rule documents in the database, and rules: there and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from limen.admin.carrying import carried_rule
from limen.admin.records import StoredRule
from limen.admin.strict_json import json_from_text
from limen.errors import Problem, RuleError, UsageError
from limen.rules.model import Rule
from limen.rules.parse import rule_from_mapping
from limen.rules.ruleset import RuleSet

__all__ = ["Good", "Salvaged", "document_of", "readable_rules", "rule_of", "ruleset_of", "salvaged", "text_of"]

Good = Mapping[str, tuple[StoredRule, Rule]]
"""Rules that were good once, by id: the row, and the rule that was read from it."""


def text_of(document: Mapping[str, Any]) -> str:
    """The text under which a document is stored."""
    return json.dumps(document, allow_nan=False)


def document_of(stored: StoredRule) -> dict[str, Any]:
    """The document as it was written.

    Raises:
        RuleError: what is stored is not a document; somebody wrote it by other means than Limen.
    """
    try:
        document = json_from_text(stored.document)
    except UsageError as error:
        raise _unreadable(stored, str(error)) from error
    if not isinstance(document, dict):
        raise _unreadable(stored, f"must be an object, not {type(document).__name__}")
    if document.get("id") != stored.id:
        raise _unreadable(stored, f"its id is {document.get('id')!r}")
    return document


def rule_of(stored: StoredRule) -> Rule:
    """
    Raises:
        RuleError: what is stored is not a rule.
    """
    return carried_rule(rule_from_mapping(document_of(stored)), stored)


def readable_rules(stored: Iterable[StoredRule]) -> list[Rule]:
    """All rules.

    Raises:
        RuleError: the problems of every one that is not a rule.
    """
    rules: list[Rule] = []
    problems: list[Problem] = []
    for row in stored:
        try:
            rules.append(rule_of(row))
        except RuleError as error:
            problems += error.problems
    if problems:
        raise RuleError(problems)
    return rules


def ruleset_of(stored: Sequence[StoredRule], revision: int) -> RuleSet:
    """The set that the rules are together, with the versions that they are at.

    Raises:
        RuleError: one of them is not a rule, or they do not go together.
    """
    return RuleSet(readable_rules(stored), revision, {row.id: row.version for row in stored})


class Salvaged(NamedTuple):
    """The rules of a database in which some rows may be rubbish."""

    ruleset: RuleSet
    """Those that can be used, in the order of their rows."""
    rows: tuple[StoredRule, ...]
    """What each was read from: its own row, or an older one that was good."""
    problems: dict[str, tuple[Problem, ...]]
    """What is wrong with the rows that cannot be used, by id."""

    @property
    def good(self) -> dict[str, tuple[StoredRule, Rule]]:
        return {row.id: (row, rule) for row, rule in zip(self.rows, self.ruleset.rules, strict=True)}


def salvaged(stored: Iterable[StoredRule], good: Good = MappingProxyType({}), revision: int = 0) -> Salvaged:
    """Every rule that can be read. In the place of one that cannot there is the last good one, where that is known.

    Args:
        good: by id, a row that was good once, and the rule that it is; those that are surely good come first. A row
            with the same document is not read again.
        revision: of the set.

    Raises:
        RuleError: the set cannot be used, and nobody can say which rule is wrong.
    """
    found: dict[str, tuple[StoredRule, Rule]] = {}
    problems: dict[str, tuple[Problem, ...]] = {}
    for row in stored:
        known = good.get(row.id)
        try:
            rule = carried_rule(known[1], row) if known and known[0].document == row.document else rule_of(row)
            found[row.id] = row, rule
        except RuleError as error:
            problems[row.id] = error.problems
            if known:
                found[row.id] = known
    while True:
        try:
            return Salvaged(_set_of(found, revision), tuple(row for row, _ in found.values()), problems)
        except RuleError:
            _step_back(_blame(found, good), found, problems, good)


def _blame(found: Mapping[str, tuple[StoredRule, Rule]], good: Good) -> RuleError:
    """What is wrong with the set, said of rules that are new where they and old ones do not go together."""
    old = [rule for name, (_, rule) in good.items() if name in found and found[name][1] is rule]
    new = [rule for name, (_, rule) in found.items() if name not in good or good[name][1] is not rule]
    try:
        RuleSet([*old, *new])
    except RuleError as error:
        return error
    raise AssertionError("whether rules go together does not depend on their order")


def _set_of(found: Mapping[str, tuple[StoredRule, Rule]], revision: int) -> RuleSet:
    rules = (rule for _, rule in found.values())
    return RuleSet(rules, revision, {row.id: row.version for row, _ in found.values()})


def _step_back(
    error: RuleError, found: dict[str, tuple[StoredRule, Rule]], problems: dict[str, tuple[Problem, ...]], good: Good
) -> None:
    """Put the rules back that a set as a whole refuses, to what was good before; or leave them out."""
    named = [problem for problem in error.problems if problem.rule in found]
    if not named:
        raise error
    for problem in named:
        name = str(problem.rule)
        known = good.get(name)
        if known and found.get(name) != known and name not in problems:
            found[name] = known
        else:
            found.pop(name, None)
        problems[name] = (*problems.get(name, ()), problem)


def _unreadable(stored: StoredRule, reason: str) -> RuleError:
    return RuleError(
        [Problem(f"the stored document is not a rule: {reason}; delete the rule or put it anew", stored.id)]
    )
