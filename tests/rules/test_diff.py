"""What a change does to a rule, and in which direction."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.rules.diff import Difference, differences, differences_to_document, differences_to_lines
from limen.rules.match import Match, match_from_mapping
from limen.rules.match_diff import match_differences
from limen.rules.path import canonical_path, segments_of
from limen.rules.request import Request

RULE = {"id": "search", "limit": "100/minute"}


def only(before: dict[str, Any], after: dict[str, Any]) -> Difference:
    (found,) = differences({**RULE, **before}, {**RULE, **after})
    return found


@pytest.mark.parametrize(
    ("before", "after", "kind", "factor"),
    [
        ("100/minute", "50/minute", "lowered", 0.5),
        ("100/minute", "200/minute", "raised", 2.0),
        ("100/minute", "100/hour", "lowered", pytest.approx(1 / 60)),
        ("100/minute", "0/minute", "lowered", 0.0),
        ("0/minute", "5/minute", "raised", None),
        ("unlimited", "100/minute", "lowered", None),
        ("unlimited", "0/minute", "lowered", 0.0),
        ("100/minute", "unlimited", "raised", None),
        ("100/minute", "50/minute burst 200", "changed", None),
        ("100/minute", "10 concurrent", "changed", None),
        ("10 concurrent", "5 concurrent", "lowered", 0.5),
        ("1000/day", "1000/calendar day", "changed", None),
        ("60/minute", "1/second burst 60", "respelled", None),
    ],
)
def test_a_limit_goes_up_or_down_by_its_numbers_and_not_by_its_spelling(
    before: str, after: str, kind: str, factor: float | None
) -> None:
    if "concurrent" in before + after:
        rules = ({"id": "a", "limit": before}, {"id": "a", "limit": after})
        (found,) = differences(*rules)
    else:
        found = only({"limit": before}, {"limit": after})
    assert found == Difference("limit", kind, before, after, factor)


def test_numbers_and_text_of_one_limit_are_the_same_limit() -> None:
    numbers = {"id": "search", "capacity": 100, "refill_per_sec": 100 / 60}
    (found,) = differences(RULE, numbers)
    assert (found.kind, found.after) == ("respelled", {"capacity": 100, "refill_per_sec": 100 / 60})
    assert differences(RULE, RULE) == []


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ({"path": "/v1/**"}, {"path": "/**"}, "widened"),
        ({"path": "/**"}, {"path": "/v1/**"}, "narrowed"),
        ({"path": "/v1/{id}"}, {"path": "/v1/*"}, "respelled"),
        ({"path": "/v1/*"}, {"path": "/v2/*"}, "changed"),
        ({"path": "/v1/a"}, {"path": "/v1/*/b"}, "changed"),
        ({"path": "/v1/a/**"}, {"path": "/v1/a"}, "narrowed"),
        ({"plan": "free"}, {"plan": ["free", "gold"]}, "widened"),
        ({"plan": ["free"]}, {"plan": "free"}, "respelled"),
        ({"plan": ["free"]}, {"plan": ["gold"]}, "changed"),
        ({"methods": ["GET"]}, {"methods": ["get", "HEAD"]}, "respelled"),
        ({"methods": ["GET", "POST"]}, {"methods": ["POST"]}, "narrowed"),
        ({"ip": "10.0.0.0/8"}, {"ip": ["10.1.0.0/16", "10.2.0.0/16"]}, "narrowed"),
        ({"ip": "10.0.0.0/8"}, {"ip": ["10.0.0.0/8", "2001:db8::/32"]}, "widened"),
        ({"host": "a.example.com"}, {"host": "*.example.com"}, "widened"),
        ({"host": "*.example.com"}, {"host": "example.com"}, "changed"),
        ({"header": {"X-Tier": "gold"}}, {"header": {"x-tier": ["gold", "free"]}}, "widened"),
    ],
)
def test_a_match_gets_wider_or_narrower_where_that_is_certain(
    before: dict[str, Any], after: dict[str, Any], kind: str
) -> None:
    assert only({"match": before}, {"match": after}).kind == kind


def test_a_condition_that_comes_narrows_and_one_that_goes_widens() -> None:
    found = differences({**RULE, "match": {"path": "/a"}}, {**RULE, "match": {"header": {"X-Beta": "1"}}})
    assert [(each.field, each.kind) for each in found] == [
        ("match.path", "widened"),
        ("match.header.x-beta", "narrowed"),
    ]


PATHS = st.lists(st.sampled_from(["a", "b", "*"]), max_size=3).flatmap(
    lambda parts: st.sampled_from(["/" + "/".join(parts), "/" + "/".join([*parts, "**"])])
)
MATCHES = st.fixed_dictionaries(
    {},
    optional={
        "path": PATHS,
        "methods": st.lists(st.sampled_from(["GET", "POST", "HEAD"]), min_size=1, max_size=2),
        "plan": st.lists(st.sampled_from(["free", "gold"]), min_size=1, max_size=2),
        "host": st.sampled_from(["x.test", "*.x.test", "*.test", "a.x.test"]),
        "ip": st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "::/0"]),
        "header": st.dictionaries(st.sampled_from(["x-a", "X-B"]), st.sampled_from(["1", "2"]), min_size=1),
    },
)
REQUESTS = st.builds(
    Request,
    method=st.sampled_from(["GET", "POST", "HEAD", "PUT"]),
    path=st.lists(st.sampled_from(["a", "b", "c"]), max_size=4).map(lambda parts: "/" + "/".join(parts)),
    plan=st.sampled_from(["free", "gold", None]),
    host=st.sampled_from(["x.test", "a.x.test", "b.a.x.test", "y.test", ""]),
    ip=st.sampled_from(["10.1.2.3", "10.9.9.9", "11.0.0.1", "2001:db8::1", None]),
    headers=st.dictionaries(st.sampled_from(["x-a", "x-b"]), st.sampled_from(["1", "2"])),
)


def lets_in(match: Match, request: Request) -> bool:
    segments = segments_of(canonical_path(request.path))
    return (match.path is None or match.path.matches(segments)) and match.holds(request)


@given(before=MATCHES, after=MATCHES, requests=st.lists(REQUESTS, min_size=20, max_size=40))
def test_what_is_called_wider_lets_in_all_that_was_let_in(
    before: dict[str, Any], after: dict[str, Any], requests: list[Request]
) -> None:
    kinds = {kind for _, kind, *_ in match_differences(before, after)}
    old, new = match_from_mapping(before), match_from_mapping(after)
    for request in requests:
        if kinds <= {"widened", "respelled"}:
            assert lets_in(new, request) or not lets_in(old, request)
        if kinds <= {"narrowed", "respelled"}:
            assert lets_in(old, request) or not lets_in(new, request)


def test_other_fields_are_told_as_they_are() -> None:
    before = {**RULE, "mode": "shadow", "cost": 1, "rollout": 10, "tags": ["a"]}
    after = {**RULE, "mode": "enforce", "cost": 5, "rollout": 5, "public_name": "S"}
    found = differences(before, after)
    assert [(each.field, each.kind) for each in found] == [
        ("mode", "changed"), ("cost", "raised"), ("rollout", "lowered"), ("tags", "removed"), ("public_name", "added")
    ]  # fmt: skip
    assert differences({**RULE, "mode": "enforce"}, RULE) == [], "a default that is written out says nothing new"


def test_a_rule_that_comes_or_goes_is_one_difference() -> None:
    assert differences(None, RULE) == [Difference("rule", "added", None, RULE)]
    assert differences(RULE, None) == [Difference("rule", "removed", RULE, None)]
    assert differences(None, None) == []


def test_what_is_no_rule_any_more_is_compared_field_by_field() -> None:
    found = differences({"id": "search", "limit": "often"}, RULE)
    assert found == [Difference("limit", "changed", "often", "100/minute")]


def test_it_is_shown_to_people_and_to_programs() -> None:
    found = differences(RULE, {"id": "search", "limit": "10/minute", "match": {"path": "/" + "x" * 100}})
    lines = differences_to_lines(found)
    assert lines[0] == "limit: 100/minute -> 10/minute (lowered to 0.1 of it)"
    assert lines[1].startswith("match.path: nothing -> /xxx")
    assert all(len(line) < 200 for line in lines)
    shown = json.loads(json.dumps(differences_to_document(found)))
    assert shown[0] == {
        "field": "limit", "kind": "lowered", "before": "100/minute", "after": "10/minute", "factor": 0.1
    }  # fmt: skip
    assert differences_to_lines(differences(None, RULE)) == ["a new rule"]
    assert differences_to_lines(differences(RULE, None)) == ["the rule is deleted"]


def test_no_line_can_break_a_terminal() -> None:
    (line,) = differences_to_lines([Difference("public_name", "changed", "a\x1b[2J", "b\nc")])
    assert line.isprintable()
