"""Rule tests as they are written: read exactly, or refused with file, line and advice."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen import Request, Rule, RuleError, RuleSet, UsageError
from limen.rules.case import ByName, Case, Stream, arrivals
from limen.rules.case_parse import case_file, cases_from
from limen.rules.count import Count, count_from

RULES = RuleSet([Rule("search", match={"path": "/v1/search/**"}, limit="100/minute"), Rule("login", limit="5/minute")])
REQUEST = "request: {path: /v1/search/books, client: acme}"


def read(*fields: str) -> Case:
    (case,) = cases_from(case_file(written(*fields), "tests.yaml"), RULES)
    return case


def written(*fields: str) -> str:
    return "tests:\n  - " + "\n    ".join(fields) + "\n"


def refusal(*fields: str) -> str:
    with pytest.raises(RuleError) as caught:
        read(*fields)
    return str(caught.value)


@pytest.mark.parametrize(
    ("said", "count"),
    [
        (5, Count(5, 5)),
        (0, Count(0, 0)),
        ("5", Count(5, 5)),
        ("exactly 5", Count(5, 5)),
        ("at most 1,000", Count(0, 1000)),
        ("at_most 5", Count(0, 5)),
        ("At least 5", Count(5, None)),
        ("90 to 100", Count(90, 100)),
    ],
)
def test_a_count_is_so_many(said: object, count: Count) -> None:
    assert count_from(said) == count
    assert count_from(str(count)) == count


@pytest.mark.parametrize("said", [-1, 1.5, True, None, "", "many", "5 to 4", "at most", "at most -1", "١", [], {}])
def test_what_is_no_count_is_told_how_to_write_it(said: object) -> None:
    with pytest.raises(UsageError, match="nothing is that" if said == "5 to 4" else "at most 100"):
        count_from(said)


def test_a_count_holds_within_its_bounds() -> None:
    assert [Count(2, 3).holds(number) for number in range(5)] == [False, False, True, True, False]
    assert Count(2).holds(10**12)


def test_a_request_has_what_rules_see() -> None:
    case = read(
        "request:",
        "  {method: POST, path: /a, host: h, client: c, plan: p, user: u, ip: 2001:db8::7, header: {X-Tier: gold}}",
        "outcome: allowed",
    )
    assert case.streams == (Stream(Request("POST", "/a", "h", "c", "p", "u", "2001:db8::7", {"x-tier": "gold"})),)


def test_a_rule_is_asked_by_name_too() -> None:
    assert read("request: {client: acme, rule: login, cost: 3}", "outcome: allowed").streams[0].ask == ByName(
        "acme", "login", 3
    )
    assert read("request: {client: acme, rule: login}", "remaining: 4").streams[0].ask == ByName("acme", "login", 1)


@pytest.mark.parametrize(
    ("traffic", "moments"),
    [
        ("{times: 3}", [0, 0, 0]),
        ("{times: 3, every: 100ms}", [0, 100_000, 200_000]),
        ("{times: 3, rate: 3/second}", [0, 333_333, 666_666]),
        ("{rate: 2/second, for: 2s}", [0, 500_000, 1_000_000, 1_500_000]),
        ("{every: 30s, for: 1m, after: 1s}", [1_000_000, 31_000_000]),
        ("{every: 2, for: 1}", [0]),
        ("[{times: 2, every: 1s}, {times: 2, every: 1s, after: 0.5s}]", [0, 500_000, 1_000_000, 1_500_000]),
    ],
)
def test_a_traffic_comes_when_it_says(traffic: str, moments: list[int]) -> None:
    assert [at_us for at_us, _ in arrivals(read(REQUEST, f"traffic: {traffic}", "allowed: 1").streams)] == moments


def test_at_one_moment_the_streams_take_turns_as_they_are_written() -> None:
    case = read("traffic: [{request: {client: a}, times: 2}, {request: {client: b}, times: 1}]", "allowed: 3")
    assert [ask.client for _, ask in arrivals(case.streams)] == ["a", "a", "b"]


def test_a_rate_is_exact() -> None:
    (stream,) = read(REQUEST, "traffic: {rate: 7/minute, for: 1h}", "allowed: 1").streams
    assert (stream.times, stream.interval_us) == (420, Fraction(60_000_000, 7))


def test_a_test_begins_when_it_says() -> None:
    begins = [
        read(REQUEST, *at, "outcome: allowed").at_us
        for at in ([], ["at: 2026-03-29T01:30:00+01:00"], ["at: 2026-03-29"])
    ]
    moments = [datetime.fromtimestamp(us / 1_000_000, UTC).isoformat() for us in begins]
    assert moments == ["2026-01-01T00:00:00+00:00", "2026-03-29T00:30:00+00:00", "2026-03-29T00:00:00+00:00"]


def test_a_test_is_called_what_it_says_or_what_it_asks() -> None:
    assert read("name: books", REQUEST, "outcome: allowed").name == "books"
    assert read(REQUEST, "outcome: allowed").name == "GET /v1/search/books by acme"
    assert read("request: {client: acme, rule: login}", "outcome: allowed").name == "acme under login"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            ["nmae: x", REQUEST, "outcome: allowed"],
            "tests.yaml:2: field 'nmae': there is no 'nmae'; did you mean 'name'?",
        ),
        ([REQUEST, "outcome: maybe"], "tests.yaml:3: field 'outcome': is allowed or denied, not 'maybe'"),
        (
            [REQUEST, "matches: [serch]"],
            "tests.yaml:3: field 'matches': there is no rule 'serch'; did you mean 'search'?",
        ),
        ([REQUEST, "matches: 5"], "is a list of ids of rules such as [search], not 5"),
        ([REQUEST, "cost: {zoo: 1}"], "there is no rule 'zoo'; mend the id, or add the rule"),
        ([REQUEST, "cost: -1"], "is a whole number of tokens"),
        ([REQUEST, "remaining: many"], "'many' is not a count"),
        ([REQUEST, "allowed: 5"], "with a single request say outcome: allowed"),
        ([REQUEST, "traffic: {times: 2}", "outcome: allowed"], "with a traffic say allowed: at most 100"),
        ([REQUEST], "tests.yaml:2: it expects nothing; say one of matches, cost, outcome"),
        (["outcome: allowed"], "there is no request in it"),
        (["traffic: {times: 2}", "allowed: 2"], "nobody knows what is sent"),
        (["request: {metod: GET}", "outcome: allowed"], "there is no 'metod'; did you mean 'method'?"),
        (["request: {path: v1}", "outcome: allowed"], "the path begins with '/'"),
        (["request: {client: 5}", "outcome: allowed"], "client is a text that is not empty, not 5; put it in quotes"),
        (["request: {ip: here}", "outcome: allowed"], "'here' is not an address"),
        (["request: {header: {x: 1}}", "outcome: allowed"], "put numbers in quotes"),
        (["request: [GET]", "outcome: allowed"], "is a mapping such as {method: GET"),
        (["request: {rule: login}", "outcome: allowed"], "a check by name has a client too"),
        (["request: {client: a, rule: logn}", "outcome: allowed"], "there is no rule 'logn'; did you mean 'login'?"),
        (["request: {client: a, rule: login, path: /}", "outcome: allowed"], "a check by name has client, rule, cost"),
        (["request: {client: a, rule: login, cost: 1.5}", "outcome: allowed"], "cost must be a whole number"),
        ([REQUEST, "traffic: {}", "allowed: 1"], "give either times: 200, or for: 1m"),
        ([REQUEST, "traffic: []", "allowed: 1"], "is empty"),
        ([REQUEST, "traffic: 5", "allowed: 1"], "is a mapping such as {times: 200, every: 100ms}"),
        ([REQUEST, "traffic: {times: 0}", "allowed: 1"], "times is a whole number from 1, not 0"),
        ([REQUEST, "traffic: {for: 1m}", "allowed: 1"], "'for' needs a rate, such as 10/second, or every"),
        (
            [REQUEST, "traffic: {rate: 5, for: 1m}", "allowed: 1"],
            "rate is so many in such a time, such as 10/second, not 5",
        ),
        ([REQUEST, "traffic: {rate: 0/second, for: 1m}", "allowed: 1"], "rate is so many in such a time"),
        (
            [REQUEST, "traffic: {rate: 1/second, every: 1s, times: 2}", "allowed: 1"],
            "give either rate or every, not both",
        ),
        ([REQUEST, "traffic: {times: 2, every: soon}", "allowed: 1"], "'soon' is not a length of time"),
        ([REQUEST, "traffic: {times: 2, every: -1}", "allowed: 1"], "every is a length of time from 0"),
        ([REQUEST, "traffic: {times: 2, every: .nan}", "allowed: 1"], "every is a length of time from 0"),
        ([REQUEST, "traffic: {times: 2, every: 1e308}", "allowed: 1"], "every is a length of time from 0"),
        ([REQUEST, f"traffic: {{times: 2, every: {10**290}}}", "allowed: 1"], "every is a length of time from 0"),
        ([REQUEST, "traffic: {rate: 1000/ms, for: 365d}", "allowed: 1"], "a test sends 1,000,000 at most"),
        ([REQUEST, "at: yesterday", "outcome: allowed"], "'yesterday' is not a moment"),
        ([REQUEST, "name: 5", "outcome: allowed"], "is a text, not 5; put it in quotes"),
        (["5"], "a test is a mapping that begins with"),
    ],
)
def test_a_test_that_makes_no_sense_is_told_what_to_write(fields: list[str], words: str) -> None:
    assert words in refusal(*fields)


def test_every_problem_is_told_at_once() -> None:
    lines = refusal("nmae: x", "request: {client: 5}", "outcome: maybe", "matches: [zoo]").splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "3", "5", "4"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the document is empty"),
        ("5", "tests.yaml:1: write 'tests:' and below it"),
        ("tests: {}", "tests.yaml:1: field 'tests': is a list"),
        ("rules: 5\ntests: []", "field 'rules': is a list of rules, or the path of a file of rules"),
        ("tests: []\ntest: []", "tests.yaml:2: there is no 'test' beside 'rules' and 'tests'"),
        ("tests: [&a {}]", "anchors and aliases are not allowed"),
    ],
)
def test_a_file_that_is_none_is_told_what_to_write(text: str, words: str) -> None:
    with pytest.raises(RuleError) as caught:
        case_file(text, "tests.yaml")
    assert words in str(caught.value)


NAMES = ["name", "at", "request", "traffic", "matches", "cost", "outcome", "by", "allowed", "remaining", "x"]
INSIDE = ["path", "client", "rule", "times", "every", "rate", "for", "search", "request", "header", "cost"]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["/a", "1s", "5/second", "at most 5"])
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INSIDE), inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES) | VALUES, max_size=2))
def test_any_document_is_tests_or_a_rule_error(tests: list[Any]) -> None:
    text = json.dumps({"tests": tests}).encode()
    with suppress(RuleError):
        assert len(cases_from(case_file(text, "tests.yaml"), RULES)) == len(tests)
