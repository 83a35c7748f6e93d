"""Rule documents, as YAML or JSON, to rules: all of them, or every problem with its file and line.

YAML is read in the sense of YAML 1.2: only `true` and `false` are truth values (`off`, `no` and `on` are text), and
`10:30` is text. Anchors, custom tags, duplicate keys, more than 1 MiB or 20 levels are refused.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from limen.errors import Problem, RuleError
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet

__all__ = ["MAX_BYTES", "rule_from_mapping", "rules_from_mappings", "rules_from_text", "rules_to_text"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 20

FIELDS = tuple(name for name in inspect.signature(Rule.__init__).parameters if name != "self")
Lines = dict[tuple[int, str], int]
"""(index of the rule, field or "") to the line where it stands."""

Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Yaml12Loader(Loader):  # type: ignore[misc, valid-type]
    """The C loader with the scalars of YAML 1.2."""


Yaml12Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp")]
    for first, resolvers in Loader.yaml_implicit_resolvers.items()
}  # fmt: skip


Yaml12Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))  # fmt: skip
Yaml12Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))


def rules_from_text(text: str | bytes, file: str = "rules") -> list[Rule]:
    """The rules of a YAML or JSON document `{rules: [...]}`.

    Raises:
        RuleError: every problem, with file and line; nothing of a document with a problem is used.
    """
    if len(text) > MAX_BYTES:
        raise RuleError([Problem(f"the document is larger than {MAX_BYTES >> 20} MiB; split it", file=file)])
    root = _composed(text, file)
    document = _constructed(root, file)
    if not isinstance(document, Mapping) or not isinstance(document.get("rules"), list):
        raise RuleError([Problem("the document must be a mapping with a list: 'rules:' and one '- id: …' each", file=file, line=1)])  # fmt: skip
    unknown = sorted(str(name) for name in document if name != "rules")
    if unknown:
        raise RuleError([Problem(f"there is no {unknown[0]!r} beside 'rules'", file=file, line=1)])
    lines = _lines(root)
    return rules_from_mappings(document["rules"], file, lines)


def rules_from_mappings(raws: Sequence[object], file: str | None = None, lines: Lines | None = None) -> list[Rule]:
    """Rules from parsed documents, checked one by one and as a set.

    Raises:
        RuleError: every problem of every rule.
    """
    rules: list[Rule] = []
    problems: list[Problem] = []
    places: dict[str, int] = {}
    lines = lines or {}
    for index, raw in enumerate(raws):
        try:
            rule = rule_from_mapping(raw)
        except RuleError as error:
            problems += [_placed(problem, index, file, lines) for problem in error.problems]
        else:
            rules.append(rule)
            places[rule.id] = index
    try:
        RuleSet(rules)
    except RuleError as error:
        problems += [_placed(problem, places[problem.rule or ""], file, lines) for problem in error.problems]
    if problems:
        raise RuleError(problems)
    return rules


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
    if _never_refills(raw):
        advice = "a refill of 0 locks clients out for good; write how many tokens a second come back"
        problems.append(Problem(advice, name, "refill_per_sec"))
    try:
        rule = Rule(
            **{field: value for field, value in raw.items() if field in FIELDS and field != "id"}, id=raw.get("id", "")
        )
    except RuleError as error:
        problems += [problem for problem in error.problems if name is not None or problem.field != "id"]
    if problems:
        raise RuleError(problems)
    return rule


def rules_to_text(rules: Sequence[Rule]) -> str:
    """The document that `rules_from_text` reads back as the same rules."""
    return yaml.safe_dump({"rules": [rule.to_document() for rule in rules]}, sort_keys=False, allow_unicode=True)


def _never_refills(raw: Mapping[Any, Any]) -> bool:
    refill = raw.get("refill_per_sec")
    return isinstance(refill, int | float) and not isinstance(refill, bool) and refill == 0 and raw.get("capacity") != 0


def _unknown(field: str, rule: str | None) -> Problem:
    close = difflib.get_close_matches(field, FIELDS, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"a rule has {', '.join(FIELDS)}"
    return Problem(f"there is no such field; {hint}", rule, field)


def _placed(problem: Problem, index: int, file: str | None, lines: Lines) -> Problem:
    line = lines.get((index, problem.field or "")) or lines.get((index, ""))
    return problem._replace(file=file, line=line)


def _composed(text: str | bytes, file: str) -> yaml.Node:
    try:
        loader = Yaml12Loader(text)
        try:
            events = _checked(loader, file)
            del events
        finally:
            loader.dispose()
        node = yaml.compose(text, Loader=Yaml12Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise RuleError([_yaml_problem(error, file)]) from error
    if node is None:
        raise RuleError([Problem("the document is empty; write 'rules: []' when no rule is wanted", file=file, line=1)])
    return node


def _checked(loader: Any, file: str) -> int:
    """Refuse anchors, tags and depth on the event stream, before anything is built from it."""
    depth = count = 0
    while loader.check_event():
        event = loader.get_event()
        count += 1
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise RuleError(
                [Problem("anchors and aliases are not allowed; write the values out", file=file, line=line)]
            )
        if getattr(event, "tag", None):
            raise RuleError([Problem(f"the tag {event.tag} is not allowed", file=file, line=line)])
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RuleError([Problem(f"nested deeper than {MAX_DEPTH} levels", file=file, line=line)])
    return count


def _constructed(root: yaml.Node, file: str) -> Any:
    _refuse_repeated_keys(root, file)
    loader = Yaml12Loader("")
    try:
        document = loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        raise RuleError([_yaml_problem(error, file)]) from error
    finally:
        loader.dispose()
    return document


def _refuse_repeated_keys(node: yaml.Node, file: str) -> None:
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if key.value in seen:
                raise RuleError([Problem(f"{key.value!r} is there twice", file=file, line=key.start_mark.line + 1)])
            seen.add(str(key.value))
            _refuse_repeated_keys(value, file)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_repeated_keys(item, file)


def _yaml_problem(error: Exception, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    message = getattr(error, "problem", None) or str(error) or "the document cannot be read"
    return Problem(f"not a readable document: {message}", file=file, line=mark.line + 1 if mark else None)


def _lines(root: yaml.Node) -> Lines:
    """Where each rule and each of its fields stands."""
    found: Lines = {}
    for key, value in root.value:
        if key.value != "rules":
            continue
        for index, item in enumerate(value.value):
            found[index, ""] = item.start_mark.line + 1
            if isinstance(item, yaml.MappingNode):
                found.update({(index, str(name.value)): name.start_mark.line + 1 for name, _ in item.value})
    return found
