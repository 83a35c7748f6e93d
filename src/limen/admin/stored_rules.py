"""Rule documents in the database, and rules: there and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from limen.admin.records import StoredRule
from limen.admin.strict_json import json_from_text
from limen.errors import Problem, RuleError, UsageError
from limen.rules.model import Rule
from limen.rules.parse import rule_from_mapping
from limen.rules.ruleset import RuleSet

__all__ = ["document_of", "readable_rules", "rule_of", "ruleset_of", "text_of"]


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
    return rule_from_mapping(document_of(stored))


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


def _unreadable(stored: StoredRule, reason: str) -> RuleError:
    return RuleError(
        [Problem(f"the stored document is not a rule: {reason}; delete the rule or put it anew", stored.id)]
    )
