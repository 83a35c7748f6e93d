"""What the rules alone show of the danger of a change."""

from fractions import Fraction
from typing import Any

import pytest

from limen import Rule
from limen.rules.dangers import Danger, cut_of, dangers, may_deny_more, touched
from limen.rules.ruleset import RuleSet

Fields = dict[str, Any]
SEARCH: Fields = {"match": {"path": "/search"}, "limit": "1000/minute"}


def rules(**documents: Fields) -> RuleSet:
    return RuleSet(Rule(rule, **fields) for rule, fields in documents.items())


def of_search(after: Fields | None, before: Fields | None = SEARCH) -> list[Danger]:
    old = rules() if before is None else rules(search=before)
    return list(dangers(old, rules() if after is None else rules(search=after)))


def held(found: list[Danger]) -> list[tuple[str, str]]:
    return [(danger.kind, danger.holds) for danger in found if danger.holds != "never"]


def test_rules_that_stay_as_they_are_are_not_looked_at() -> None:
    before = rules(a={"limit": "1/minute"}, b={"limit": 0}, c={"limit": "5/minute"})
    after = rules(a={"limit": "1/minute"}, b={"limit": 0}, d={"limit": "5/minute"})
    assert touched(before, after) == ("c", "d")
    assert {danger.rule for danger in dangers(before, after)} == {"c"}


@pytest.mark.parametrize("fields", [{"limit": 0}, {"limit": "0/minute"}, {"capacity": 0, "refill_per_sec": 0}])
@pytest.mark.parametrize(
    "before",
    [None, SEARCH, {**SEARCH, "limit": "unlimited"}, {**SEARCH, "mode": "shadow"}, {**SEARCH, "rollout": 0}],
)
def test_a_limit_of_0_that_comes_in_force_is_held_up(fields: Fields, before: Fields | None) -> None:
    after = {"match": SEARCH["match"], **fields}
    assert ("limit_zero", "always") in held(of_search(after, before))
    assert held(of_search({**after, "mode": "shadow"}, before)) == []
    assert held(of_search({**after, "mode": "off"}, before)) == []


def test_what_was_0_may_stay_0_and_may_be_opened() -> None:
    shut = {**SEARCH, "limit": 0}
    assert held(of_search({**shut, "tags": ["x"]}, shut)) == []
    assert held(of_search(SEARCH, shut)) == []


@pytest.mark.parametrize(
    ("before", "after", "factor"),
    [
        ({"limit": "1000/minute"}, {"limit": "100/minute"}, 10),
        ({"limit": "1000/minute"}, {"limit": "99/minute"}, Fraction(1000, 99)),
        ({"limit": "100/minute"}, {"limit": "100/hour"}, 60),
        ({"limit": "100/second burst 100"}, {"limit": "1/second burst 100"}, 100),
        ({"limit": "100/minute"}, {"limit": "200/minute"}, 1),
        ({"limit": "60/minute"}, {"limit": "1/second burst 1"}, 60),
        ({"limit": "100/minute", "algorithm": "sliding_log"}, {"limit": "5/minute", "algorithm": "fixed_window"}, 20),
        ({"limit": "100/minute"}, {"limit": "100/minute", "cost": 20}, 20),
        ({"limit": "100/minute", "cost": 20}, {"limit": "5/minute"}, 1),
        ({"limit": "100/day"}, {"limit": "100/month"}, pytest.approx(30.4, abs=0.5)),
        ({"limit": "100/minute"}, {"limit": "unlimited"}, 1),
        ({"limit": "unlimited"}, {"limit": "100/minute"}, None),
        ({"limit": "100/minute"}, {"limit": 0}, None),
        ({"limit": 0}, {"limit": "100/minute"}, 1),
        ({"limit": "10 concurrent"}, {"limit": "2 concurrent"}, 5),
    ],
)
def test_by_what_factor_fewer_requests_pass(before: Fields, after: Fields, factor: Any) -> None:
    assert cut_of(Rule("r", **before), Rule("r", **after)) == factor


def test_a_cut_by_more_than_ten_is_held_up_and_one_by_ten_is_not() -> None:
    assert held(of_search({**SEARCH, "limit": "100/minute"})) == []
    assert held(of_search({**SEARCH, "limit": "99/minute"})) == [("limit_cut", "always")]
    assert "a factor of 10.1" in of_search({**SEARCH, "limit": "99/minute"})[0].message
    assert held(of_search({**SEARCH, "limit": "99/minute", "mode": "shadow"})) == []


def test_a_cut_of_what_nobody_was_held_to_is_none() -> None:
    assert held(of_search({**SEARCH, "limit": "1/minute"}, {**SEARCH, "mode": "shadow"})) == []
    assert [danger.kind for danger in of_search(SEARCH, {**SEARCH, "mode": "shadow"})] == ["enforced"]


def test_what_was_unlimited_is_held_up_only_where_there_is_no_traffic_to_judge_it_by() -> None:
    assert held(of_search(SEARCH, {**SEARCH, "limit": "unlimited"})) == [("limited_first", "unjudged")]
    assert held(of_search(SEARCH, None)) == [], "a new rule limits what nothing has limited: traffic has to tell"


@pytest.mark.parametrize(
    "after",
    [
        None,
        {"mode": "off"},
        {"mode": "shadow"},
        {"rollout": 50},
        {"tags": []},
        {"limit": "unlimited"},
        {"limit": "20000/minute"},
        {"match": {"path": "/elsewhere"}},
    ],
)
def test_less_protection_against_guessing_is_held_up(after: Fields | None) -> None:
    login = {**SEARCH, "tags": ["auth"]}
    found = of_search(None if after is None else {**login, **after}, login)
    assert ("unprotected", "always") in held(found)
    assert held(of_search(None if after is None else {**SEARCH, **after})) == [], "other rules may be loosened"


def test_a_login_rule_may_be_changed_within_bounds() -> None:
    login = {**SEARCH, "tags": ["auth"]}
    assert held(of_search({**login, "limit": "500/minute", "public_name": "x"}, login)) == []
    assert held(of_search({**login, "limit": "9000/minute"}, login)) == []


def test_what_only_traffic_can_judge_is_pointed_out() -> None:
    after = {"match": {}, "key_by": [], "limit": "1000/minute", "cost": 2}
    assert [(danger.kind, danger.holds) for danger in of_search(after)] == [
        ("match", "never"),
        ("key", "never"),
        ("cost", "never"),
    ]
    grown = of_search({**SEARCH, "rollout": 100}, {**SEARCH, "rollout": 10})
    assert [danger.kind for danger in grown] == ["more_clients"]
    assert [danger.kind for danger in of_search(None)] == ["rule_gone"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"limit": "999/minute"}, True),
        ({"limit": "2000/minute"}, False),
        ({"limit": "2000/hour"}, True),
        ({"limit": "unlimited"}, False),
        ({"limit": 0}, True),
        ({"limit": "1000/minute", "algorithm": "sliding_log"}, True),
        ({"match": {"path": "/**"}}, True),
        ({"key_by": []}, True),
        ({"cost": 2}, True),
        ({"tags": ["x"], "public_name": "x", "candidate": "5/minute", "on_failure": "closed", "lease": "auto"}, False),
        ({"mode": "shadow", "limit": 0}, False),
        ({"rollout": 0, "limit": 0}, False),
    ],
)
def test_what_may_deny_more_than_before(change: Fields, expected: bool) -> None:
    assert may_deny_more(Rule("r", **SEARCH), Rule("r", **{**SEARCH, **change})) is expected
    assert may_deny_more(None, Rule("r", **SEARCH))
    assert may_deny_more(Rule("r", **SEARCH, mode="shadow"), Rule("r", **SEARCH))
    assert not may_deny_more(Rule("r", **SEARCH), None)
