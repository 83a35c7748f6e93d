"""Rule documents: read exactly, or refused with file, line and advice; nothing else, whatever the bytes."""

from __future__ import annotations

import inspect
import json
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from limen.core.lease import LeaseTerms
from limen.core.limit import Limit
from limen.errors import RuleError
from limen.rules.match import FIELD_NAME
from limen.rules.model import Rule
from limen.rules.parse import (
    MAX_BYTES,
    rule_from_mapping,
    rules_from_mappings,
    rules_from_text,
    rules_to_text,
)

EVERYTHING = """\
rules:
  - id: search
    match:
      methods: [GET]
      host: api.example.com
      path: /v1/{org}/search/**
      plan: [free, "on"]
      client: acme
      ip: [192.0.2.0/24]
      header: {x-tier: gold}
    key_by: [client, path.org]
    algorithm: token_bucket
    limit: 20/second burst 100
    cost: {default: 1, when: [{path: /v1/search/deep, cost: 10}]}
    on_failure: closed
    mode: shadow
    rollout: 10
    lease: auto
    regions: local
    colocate: login
    tags: [auth]
    public_name: Search
  - {id: plain, match: {}, key_by: [client], capacity: 100, refill_per_sec: 1.6667, on_failure: open}
"""


def one(fields: str) -> Rule:
    (rule,) = rules_from_text(f"rules:\n  - id: a\n    limit: 100/minute\n    {fields}\n")
    return rule


@pytest.mark.parametrize(
    ("written", "lease"),
    [
        ("off", None),
        ("auto", LeaseTerms()),
        ("{size: 10}", LeaseTerms(10)),
        ("{size: 2, ttl: 0.5s}", LeaseTerms(2, 500_000)),
        ("{size: 10, ttl: 2}", LeaseTerms(10, 2_000_000)),
    ],
)
def test_leases_of_a_rule(written: str, lease: LeaseTerms | None) -> None:
    rule = one(f"lease: {written}")
    assert rule.lease == lease
    assert rule_from_mapping(rule.to_document()).lease == lease


def refused(text: str | bytes) -> list[str]:
    with pytest.raises(RuleError) as caught:
        rules_from_text(text, "rules.yaml")
    assert all(problem.file == "rules.yaml" for problem in caught.value.problems)
    return str(caught.value).splitlines()


def test_every_field_of_a_rule() -> None:
    search, plain = rules_from_text(EVERYTHING)
    assert search.limit == Limit(100, Fraction(20))
    assert (search.mode, search.on_failure, search.rollout, search.tags) == ("shadow", "closed", 10, ("auth",))
    assert search.key_by == ("client", "path.org")
    assert (search.lease, plain.lease) == (LeaseTerms(), None)
    assert plain.limit == Limit(100, Fraction(16667, 10_000))
    assert plain.policy is not None
    assert plain.policy.window_s == 60


def test_json_reads_as_the_same_rules() -> None:
    as_json = json.dumps(yaml.safe_load(EVERYTHING), indent="\t")
    assert rules_from_text(as_json) == rules_from_text(EVERYTHING) == rules_from_text(EVERYTHING.encode("utf-16"))


def test_no_rules_must_be_said() -> None:
    assert rules_from_text("rules: []") == []
    for empty in ("", " \n", "# nothing\n", "---\n", b"\xef\xbb\xbf"):
        assert refused(empty) == ["rules.yaml:1: the document is empty; write 'rules: []' when no rule is wanted"]


@pytest.mark.parametrize(
    ("fields", "attribute", "value"),
    [
        ("mode: off", "mode", "off"),
        ("mode: 'off'", "mode", "off"),
        ("cost: 010", "cost", (10, ())),
        ("cost: +5", "cost", (5, ())),
        ("tags: [on, no, yes, y, 10:30, 2024-01-01, 0x1f, 1_000, =, <<]", "tags",
         ("on", "no", "yes", "y", "10:30", "2024-01-01", "0x1f", "1_000", "=", "<<")),
        ("public_name: no", "public_name", "no"),
        ("rollout: 007", "rollout", 7),
        ("colocate: ~", "colocate", None),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(fields: str, attribute: str, value: object) -> None:
    rule = one(fields)
    shown = rule.to_document().get("colocate") if attribute == "colocate" else getattr(rule, attribute)
    assert shown == value


@pytest.mark.parametrize(
    ("written", "rate"), [("1e-1", "1/10"), ("1e1", "10"), (".5", "1/2"), ("5.", "5"), ("2E+1", "20")]
)
def test_a_number_with_an_exponent_is_a_number(written: str, rate: str) -> None:
    (rule,) = rules_from_text(f'{{"rules": [{{"id": "a", "capacity": 5, "refill_per_sec": {written}}}]}}')
    assert rule.limit == Limit(5, Fraction(rate))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("match: {client: 1e3}", "match.client must be text or a list of texts, not 1000.0; put it in quotes"),
        ("match: {client: 630}", "match.client must be text or a list of texts, not 630; put it in quotes"),
        ("match: {plan: true}", "match.plan must be text or a list of texts, not True; put it in quotes"),
        ("match: {plan: ~}", "match.plan must be text or a list of texts, not None; put it in quotes"),
        ("tags: [1]", "must be a list of texts, not [1]"),
        ("cost: .nan", "cost must be a whole number of tokens from 0 to 1,000,000,000, not nan"),
        ("rollout: 1e1", "rollout is a whole per cent from 0 to 100, not 10.0"),
    ],
)
def test_a_scalar_that_yaml_took_for_something_else_is_explained(fields: str, message: str) -> None:
    field = fields.partition(":")[0]
    text = f"rules:\n  - id: a\n    limit: 100/minute\n    {fields}\n"
    assert refused(text) == [f"rules.yaml:4: rule 'a', field {field!r}: {message}"]


def test_every_problem_of_every_rule_is_placed() -> None:
    text = """\
rules:
  - id: a
    limit: 100
    rolout: 3
  - limit: 5/minute
  - id: c
    match: {path: v1}
    key_by: [clinet]
    capacity: -1
    refill_per_sec: 0
  - nonsense
  - id: d
    limit: 5/minute
    cost: 6
"""
    with pytest.raises(RuleError) as caught:
        rules_from_text(text)
    assert [(problem.line, problem.rule, problem.field) for problem in caught.value.problems] == [
        (4, "a", "rolout"),
        (3, "a", "limit"),
        (5, None, "id"),
        (10, "c", "refill_per_sec"),
        (7, "c", "match"),
        (8, "c", "key_by"),
        (9, "c", "capacity"),
        (11, None, None),
        (14, "d", "cost"),
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("rules: 5", ["1: write 'rules:' and below it one '- id: …' for each rule"]),
        ("[]", ["1: write 'rules:' and below it one '- id: …' for each rule"]),
        ("rules:\n", ["1: write 'rules:' and below it one '- id: …' for each rule"]),
        ("rules: []\nrulez: []", ["2: there is no 'rulez' beside 'rules'"]),
        ("rules: []\n5: []", ["2: the name of a field is text; put '5' in quotes if it is one"]),
        ("rules:\n- id: a\n  limit: 5/s\n  id: b", ["4: 'id' is there twice"]),
        ("rules: []\n'rules': []", ["2: 'rules' is there twice"]),
        ('{"rules": [],\n"rules": []}', ["2: 'rules' is there twice"]),
        ("rules:\n- id: a\n  match: {plan: x, plan: y}", ["3: 'plan' is there twice"]),
        ("rules:\n- &x {id: a}", ["2: anchors and aliases are not allowed; write the values out"]),
        ("rules:\n- *x", ["2: anchors and aliases are not allowed; write the values out"]),
        ("rules: !!set {}", ["1: the tag tag:yaml.org,2002:set is not allowed; leave it out"]),
        ("rules: !!python/object/apply:os.system [x]", ["1: the tag tag:yaml.org,2002:python/object/apply:os.system "
                                                        "is not allowed; leave it out"]),
        ("? [rules]\n: []", ["1: the name of a field is text, not a list or mapping"]),
        ("rules:\n  " + "[" * 40 + "]" * 40, ["2: nested deeper than 20 levels"]),
        ("rules:\n- id: a\n  capacity: " + "9" * 5000, ["3: a number of 5000 digits is too long"]),
        ("rules: [\n", ["2: not a readable document: did not find expected node content"]),
        ("rules: []\n---\nrules: []", ["2: not a readable document: but found another document"]),
        ("rules:\n\t- id: a", ["2: not a readable document: found character that cannot start any token"]),
        ("rules:\n- id: a\n  limit: 5/s\n- id: a\n  limit: 6/s",
         ["4: rule 'a', field 'id': two rules have this id; give each its own"]),
        ("rules:\n- {id: a, limit: 5/s, match: {path: /x}}\n- {id: b, limit: 5/s, match: {path: /x}}",
         ["3: rule 'b': does what rule 'a' does already: same match, same key, same limit; remove one"]),
        ("rules:\n- {id: a, limit: 5/s, limits: 6/s}",
         ["2: rule 'a', field 'limits': there is no such field; did you mean 'limit'?"]),
        ("rules:\n- {id: a, capacity: 5, refill_per_sec: 0}",
         ["2: rule 'a', field 'refill_per_sec': a refill of 0 locks clients out for good; "
          "write how many tokens a second come back"]),
        ("rules:\n- {id: [a], limit: 5/s}",
         ["2: rule \"['a']\", field 'id': ['a'] is not an id: use 1 to 63 of a-z, 0-9, '.', '_' and '-', "
          "beginning with a-z or 0-9"]),
    ],
)  # fmt: skip
def test_a_bad_document_is_told_where_and_what(text: str, lines: list[str]) -> None:
    assert refused(text) == [f"rules.yaml:{line}" for line in lines]


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1", ".inf", "-.inf", ".nan", "true", '"5"', "[]"]
)
@pytest.mark.parametrize("field", ["capacity", "refill_per_sec"])
def test_what_is_no_number_of_tokens_is_refused(field: str, number: str) -> None:
    numbers = {"capacity": "5", "refill_per_sec": "5", field: number}
    fields = ", ".join(f'"{name}": {value}' for name, value in numbers.items())
    (line,) = refused(f'{{"rules": [{{"id": "a", {fields}}}]}}')
    assert line.startswith(f"rules.yaml:1: rule 'a', field {field!r}: {field} must be")


@pytest.mark.parametrize("opening", ["[", '{"a":', "- "])
@pytest.mark.parametrize("depth", [21, 1000, 100_000])
def test_a_deep_document_is_refused_before_it_is_built(opening: str, depth: int) -> None:
    (line,) = refused(opening * depth)
    assert "nest" in line


def test_a_document_of_more_than_a_mebibyte_is_refused_unread() -> None:
    assert refused(b"[" * (MAX_BYTES + 1)) == ["rules.yaml: the document is larger than 1 MiB; split it"]


@pytest.mark.parametrize("data", [b"rules: [\xff]", b"\xff\xfe\x00", "rules: [\ud800]", "rules: [\x00]", b"\x80abc"])
def test_what_is_no_text_is_refused(data: str | bytes) -> None:
    (line,) = refused(data)
    assert "not a readable document" in line


FIELD_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["5/minute", "open", "off", "/v1/**", "{id}", "client", "10.0.0.0/8", "unlimited", "auto"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["path", "when", "cost", "default", "plan", "ip", "header"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
FIELDS = st.sampled_from([*inspect.signature(Rule).parameters, "limits", ""])
DOCUMENTS = st.dictionaries(FIELDS, FIELD_VALUES, max_size=6)


def is_rules_or_rule_error(text: str | bytes) -> None:
    try:
        rules = rules_from_text(text, "f")
    except RuleError as error:
        refusal = error
    else:
        assert rules_from_text(rules_to_text(rules)) == rules
        return
    assert refusal.problems
    assert all(str(problem).startswith("f:") for problem in refusal.problems)


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_bytes_are_rules_or_a_rule_error(data: str | bytes) -> None:
    is_rules_or_rule_error(data)


SIGNS = [*"[]{}:,-?&*!|>'\"%@`#\n\t \\~<=", "rules:", "\n- ", "id: a", "5/s", "\n  "]


@given(st.lists(st.sampled_from(SIGNS)).map("".join))
def test_any_signs_of_yaml_are_rules_or_a_rule_error(text: str) -> None:
    is_rules_or_rule_error("rules:" + text)
    is_rules_or_rule_error(text)


@given(st.lists(DOCUMENTS, max_size=3))
def test_any_fields_are_rules_or_a_rule_error(documents: list[dict[str, Any]]) -> None:
    is_rules_or_rule_error(json.dumps({"rules": documents}, ensure_ascii=False).encode(errors="replace"))
    is_rules_or_rule_error(yaml.safe_dump({"rules": documents}, allow_unicode=True))
    with suppress(RuleError):
        rules_from_mappings(documents)


@given(st.integers(0, len(EVERYTHING)), st.integers(0, 20), st.text(max_size=5))
def test_a_damaged_document_is_rules_or_a_rule_error(place: int, lost: int, put: str) -> None:
    is_rules_or_rule_error(EVERYTHING[:place] + put + EVERYTHING[place + lost :])


NAMES = [
    "on", "off", "no", "y", "~", "null", "1e3", "089", "010", "0x1f", "0o17", "1_000", "10:30", "10:30.5", ".5", "+1",
    "2024-01-01", "<<", "=", "- a", "a: b", "#", "", "\u0085", "\u2028", "\ufeff", "é", "🙂", "{a}", "!x", "&x", "*x",
    " a ", "a\nb", "a\r\n", "\t", "'", '"', "\\",
]  # fmt: skip
names = st.sampled_from(NAMES) | st.text(st.characters(codec="utf-8"), max_size=8)


@given(st.lists(st.tuples(names.filter(bool), names, st.floats(1e-6, 1e6), st.integers(1, 10**6)), max_size=3))
def test_written_rules_read_back_as_the_same_rules(rows: list[tuple[str, str, float, int]]) -> None:
    rules = []
    for number, (client, tag, rate, capacity) in enumerate(rows):
        if capacity / rate < 10**9:
            header = client if FIELD_NAME.fullmatch(client) else "x-a"
            match = {"client": [client], "plan": client, "header": {header: "on"}}
            fields: dict[str, Any] = {"tags": [tag], "capacity": capacity, "refill_per_sec": rate, "rollout": number}
            rules.append(Rule(f"r{number}", match=match, **fields))
    again = rules_from_text(rules_to_text(rules))
    assert again == rules
    assert [rule.limit for rule in again] == [rule.limit for rule in rules]


@pytest.mark.parametrize("rate", [Fraction(10, 13), Fraction(1, 86_400), Fraction(100, 60), Fraction(7)])
def test_an_exact_rate_survives_being_written(rate: Fraction) -> None:
    (again,) = rules_from_text(rules_to_text([Rule("a", capacity=1, refill_per_sec=rate)]))
    assert again.limit == Limit(1, rate)


def test_one_rule_may_be_given_as_a_mapping() -> None:
    numbers = {"capacity": 5, "refill_per_sec": 1}
    rule = rule_from_mapping({"id": "a", "match": {}, "key_by": ["ip"], **numbers, "on_failure": "open"})
    assert rule.limit == Limit(5, Fraction(1))
    with pytest.raises(RuleError, match="a rule is a mapping that begins with 'id: …', not 5"):
        rule_from_mapping(5)


def test_problems_without_a_file_have_no_place() -> None:
    with pytest.raises(RuleError) as caught:
        rules_from_mappings([{"id": "a"}, {"id": "b", "limit": "5/s"}, {"id": "b", "limit": "5/s"}])
    assert [(problem.rule, problem.field, problem.file, problem.line) for problem in caught.value.problems] == [
        ("a", "limit", None, None),
        ("b", "id", None, None),
    ]
