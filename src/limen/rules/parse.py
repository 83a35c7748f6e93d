"""Rule documents, as YAML or JSON, to rules: all of them, or every problem with its file and line."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from limen.errors import Problem, RuleError
from limen.rules.document import MAX_BYTES, Lines, document_to_text, read_document
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet

__all__ = ["MAX_BYTES", "rule_from_mapping", "rules_from_mappings", "rules_from_text", "rules_to_text"]

FIELDS = tuple(name for name in inspect.signature(Rule.__init__).parameters if name != "self")


def rules_from_text(text: str | bytes, file: str = "rules") -> list[Rule]:
    """The rules of a YAML or JSON document `{rules: [...]}`. Its `tests`, if it has some, are for `limen rules test`.

    Raises:
        RuleError: every problem, with file and line; nothing of a document with a problem is used.
    """
    document, lines = read_document(text, file)
    if not isinstance(document, Mapping) or not isinstance(document.get("rules"), list):
        raise RuleError([Problem("write 'rules:' and below it one '- id: …' for each rule", file=file, line=1)])
    for name in document:
        if name not in ("rules", "tests"):
            raise RuleError([Problem(f"there is no {name!r} beside 'rules'", file=file, line=lines.get((name,)))])
    return rules_from_mappings(document["rules"], file, lines)


def rules_to_text(rules: Sequence[Rule]) -> str:
    """The document that `rules_from_text` reads back as the same rules."""
    return document_to_text({"rules": [rule.to_document() for rule in rules]})


def rules_from_mappings(raws: Sequence[object], file: str | None = None, lines: Lines | None = None) -> list[Rule]:
    """Rules from parsed documents, checked one by one and as a set.

    Raises:
        RuleError: every problem of every rule.
    """
    rules: dict[int, Rule] = {}
    problems: list[Problem] = []
    for index, raw in enumerate(raws):
        try:
            rules[index] = rule_from_mapping(raw)
        except RuleError as error:
            problems += [_placed(problem, index, file, lines or {}) for problem in error.problems]
    try:
        RuleSet(rules.values())
    except RuleError as error:
        last = {rule.id: index for index, rule in rules.items()}
        problems += [_placed(problem, last[str(problem.rule)], file, lines or {}) for problem in error.problems]
    if problems:
        raise RuleError(problems)
    return list(rules.values())


def rule_from_mapping(raw: object) -> Rule:
    """One rule from a parsed document. What would lock clients out for good is refused here.

    Raises:
        RuleError: every problem of the rule.
    """
    if not isinstance(raw, Mapping):
        raise RuleError([Problem(f"a rule is a mapping that begins with 'id: …', not {raw!r}")])
    name = str(raw["id"]) if "id" in raw else None
    problems = [_unknown(str(field), name) for field in raw if field not in FIELDS]
    if name is None:
        problems.append(Problem("the rule has no id; write id: my-rule", None, "id"))
    problems += [Problem("it is empty; give it a value, or leave it out", name, field) for field in _empty(raw)]
    if _never_refills(raw):
        advice = "a refill of 0 locks clients out for good; write how many tokens a second come back"
        problems.append(Problem(advice, name, "refill_per_sec"))
    try:
        rule = Rule(**{"id": NAMELESS, **{field: raw[field] for field in FIELDS if raw.get(field) is not None}})
    except RuleError as error:
        problems += [problem._replace(rule=name) for problem in error.problems]
    if problems:
        raise RuleError(problems)
    return rule


NAMELESS = "nameless"
"""Stands in for a missing id, so that the other fields are checked too."""


OPTIONAL = ("match", "limit", "capacity", "refill_per_sec", "algorithm", "candidate", "colocate", "public_name")
"""Fields that may be there and be null, as programs write them."""


def _empty(raw: Mapping[Any, Any]) -> list[str]:
    """Other fields that are there and say nothing: somebody began to write something, and meant no default."""
    return [field for field in FIELDS if field in raw and raw[field] is None and field not in OPTIONAL]


def _never_refills(raw: Mapping[Any, Any]) -> bool:
    refill = raw.get("refill_per_sec")
    return isinstance(refill, int | float) and not isinstance(refill, bool) and refill == 0 and raw.get("capacity") != 0


def _unknown(field: str, rule: str | None) -> Problem:
    close = difflib.get_close_matches(field, FIELDS, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"a rule has {', '.join(FIELDS)}"
    return Problem(f"there is no such field; {hint}", rule, field)


def _placed(problem: Problem, index: int, file: str | None, lines: Lines) -> Problem:
    line = lines.get(("rules", index, problem.field or "")) or lines.get(("rules", index))
    return problem._replace(file=file, line=line)
