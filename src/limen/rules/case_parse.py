"""Rule tests, as YAML or JSON, to cases: all of them, or every problem with its file and line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from limen.errors import Problem, RuleError, UsageError
from limen.rules.case import ByName, Case, Expected, Stream, described
from limen.rules.case_traffic import ask_from, streams_from, unknown_field
from limen.rules.cost import MAX_COST
from limen.rules.count import count_from
from limen.rules.document import Lines, read_document
from limen.rules.ruleset import RuleSet

__all__ = ["CaseFile", "case_file", "cases_from"]

T = TypeVar("T")

FIELDS = ("name", "at", "request", "traffic", *Expected._fields)
FOR_TRAFFIC = ("allowed", "denied")
BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
"""Where a test begins that does not say when: with a minute, a day, a month and a year."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CaseFile(NamedTuple):
    """A file of tests, not yet compared with rules."""

    rules: Sequence[object] | str | None
    """Documents of rules, the path of a file that has them, or None."""
    cases: Sequence[object]
    lines: Lines
    file: str


def case_file(text: str | bytes, file: str) -> CaseFile:
    """What a file says: `{rules: [...] or PATH, tests: [...]}`, each of them optional, but not both.

    Raises:
        RuleError: with file and line.
    """
    document, lines = read_document(text, file)
    if not isinstance(document, Mapping) or not document.keys() & {"rules", "tests"}:
        advice = (
            "write 'tests:' and below it one '- request: …' for each test, and 'rules:' with the rules or their file"
        )
        raise RuleError([Problem(advice, file=file, line=1)])
    for name in document.keys() - {"rules", "tests"}:
        message = f"there is no {name!r} beside 'rules' and 'tests'"
        raise RuleError([Problem(message, file=file, line=lines.get((name,)))])
    rules, tests = document.get("rules"), document.get("tests", [])
    if "rules" in document and not isinstance(rules, str | list):
        raise RuleError(
            [Problem("is a list of rules, or the path of a file of rules", None, "rules", file, lines["rules",])]
        )
    if not isinstance(tests, list):
        raise RuleError([Problem("is a list, one '- request: …' for each test", None, "tests", file, lines["tests",])])
    return CaseFile(rules, tests, lines, file)


def cases_from(file: CaseFile, ruleset: RuleSet) -> list[Case]:
    """The tests of a file, compared with the rules that they are about.

    Raises:
        RuleError: every problem of every test.
    """
    cases: list[Case] = []
    problems: list[Problem] = []
    for index, raw in enumerate(file.cases):
        reading = _Reading(index, file)
        case = _case(raw, reading, ruleset.by_id.keys())
        problems += reading.problems
        if case is not None and not reading.problems:
            cases.append(case)
    if problems:
        raise RuleError(problems)
    return cases


class _Reading:
    """Tries each field of a test, so that one refusal lists every problem."""

    def __init__(self, index: int, file: CaseFile) -> None:
        self.index, self.file = index, file
        self.problems: list[Problem] = []

    def line(self, field: str = "") -> int | None:
        place = ("tests", self.index)
        return self.file.lines.get((*place, field) if field else place) or self.file.lines.get(place)

    def refuse(self, field: str | None, message: str) -> None:
        self.problems.append(Problem(message, None, field, self.file.file, self.line(field or "")))

    def __call__(self, field: str, raw: Mapping[Any, Any], make: Callable[[Any], T]) -> T | None:
        if field not in raw:
            return None
        try:
            return make(raw[field])
        except UsageError as error:
            self.refuse(field, str(error))
            return None


def _case(raw: object, reading: _Reading, known: Collection[str]) -> Case | None:
    if not isinstance(raw, Mapping):
        reading.refuse(None, f"a test is a mapping that begins with 'name: …' or 'request: …', not {raw!r}")
        return None
    for field in [str(field) for field in raw if field not in FIELDS]:
        reading.refuse(field, unknown_field(field, FIELDS, "a test"))
    ask = reading("request", raw, ask_from)
    streams = reading("traffic", raw, lambda traffic: streams_from(traffic, ask))
    if "traffic" not in raw:
        streams = (Stream(ask),) if ask is not None else None
    if "request" not in raw and "traffic" not in raw:
        reading.refuse(None, "there is no request in it; write request: {method: GET, path: /v1/search, client: acme}")
    _refuse_misplaced(raw, reading)
    at_us, expected = reading("at", raw, _moment), _expected(raw, reading, known)
    if streams is None:
        return None
    _refuse_unknown_rules(streams, reading, known)
    name = reading("name", raw, _name) or described(streams[0].ask)
    lines = {field: line for field in raw if (line := reading.line(str(field)))}
    return Case(name, _us(BEGINS) if at_us is None else at_us, streams, expected, reading.line(), lines)


def _refuse_misplaced(raw: Mapping[Any, Any], reading: _Reading) -> None:
    """What says nothing about a single request, or nothing about many."""
    if "traffic" in raw and "outcome" in raw:
        reading.refuse("outcome", "is of a single request; with a traffic say allowed: at most 100")
    for field in FOR_TRAFFIC:
        if "traffic" not in raw and field in raw:
            reading.refuse(field, f"counts the requests of a traffic; with a single request say outcome: {field}")
    if not any(field in raw for field in Expected._fields):
        reading.refuse(None, f"it expects nothing; say one of {', '.join(Expected._fields)}")


def _refuse_unknown_rules(streams: tuple[Stream, ...], reading: _Reading, known: Collection[str]) -> None:
    named = {stream.ask.rule for stream in streams if isinstance(stream.ask, ByName)}
    for rule in sorted(named - set(known)):
        reading.refuse("request", _no_rule(rule, known))


def _expected(raw: Mapping[Any, Any], reading: _Reading, known: Collection[str]) -> Expected:
    def rules(value: object) -> frozenset[str]:
        return _rules(value, known)

    return Expected(
        matches=reading("matches", raw, rules),
        cost=reading("cost", raw, lambda value: _by_rule(value, _cost, known)),
        outcome=reading("outcome", raw, _outcome),
        by=reading("by", raw, rules),
        shadow=reading("shadow", raw, rules),
        remaining=reading("remaining", raw, lambda value: _by_rule(value, count_from, known)),
        allowed=reading("allowed", raw, count_from),
        denied=reading("denied", raw, count_from),
    )


def _rules(value: object, known: Collection[str]) -> frozenset[str]:
    ids = [value] if isinstance(value, str) else value
    if not isinstance(ids, list) or not all(isinstance(rule, str) for rule in ids):
        raise UsageError(f"is a list of ids of rules such as [search], not {value!r}")
    for rule in ids:
        _check_known(rule, known)
    return frozenset(ids)


def _by_rule(value: object, make: Callable[[object], T], known: Collection[str]) -> T | Mapping[str, T]:
    if not isinstance(value, Mapping):
        return make(value)
    for rule in value:
        _check_known(rule, known)
    return {rule: make(each) for rule, each in value.items()}


def _check_known(rule: str, known: Collection[str]) -> None:
    if rule not in known:
        raise UsageError(_no_rule(rule, known))


def _no_rule(rule: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(rule, list(known), 1)
    return f"there is no rule {rule!r}; " + (f"did you mean {close[0]!r}?" if close else "mend the id, or add the rule")


def _cost(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_COST:
        raise UsageError(f"is a whole number of tokens, or one for each rule such as {{search: 10}}, not {value!r}")
    return value


def _outcome(value: object) -> Any:
    if value not in ("allowed", "denied"):
        raise UsageError(f"is allowed or denied, not {value!r}")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"is a text, not {value!r}; put it in quotes")
    return value.strip()


def _moment(value: object) -> int:
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise UsageError(
            f"{value!r} is not a moment; write 2026-03-29T01:30:00+01:00, or without a zone for UTC"
        ) from None
    return _us(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _us(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
