"""The index by path finds what comparing every rule finds; what can never decide is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.errors import RuleError
from limen.rules.model import Rule
from limen.rules.path import canonical_path, segments_of
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet

SEGMENTS = ["a", "b", "v1", "*", "{x}"]

patterns = st.builds(
    lambda segments, rest: "/" + "/".join(segments + ["**"] * rest),
    st.lists(st.sampled_from(SEGMENTS), max_size=4).filter(lambda parts: parts.count("{x}") < 2),
    st.booleans(),
)
matches = st.fixed_dictionaries(
    {},
    optional={
        "path": patterns,
        "methods": st.sampled_from([["GET"], ["POST"], ["GET", "PUT"]]),
        "plan": st.sampled_from(["free", "paid"]),
        "ip": st.sampled_from(["192.0.2.0/24", "2001:db8::/32"]),
        "host": st.sampled_from(["a.test", "*.test"]),
    },
)
modes = st.sampled_from(["enforce", "enforce", "shadow", "off"])
requests = st.builds(
    Request,
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT"]),
    path=st.lists(st.sampled_from(["a", "b", "v1", "c", "", ".", "..", "%61", "*"]), max_size=5).map("/".join),
    host=st.sampled_from(["a.test", "b.test:80", "other"]),
    plan=st.sampled_from([None, "free", "paid"]),
    ip=st.sampled_from([None, "192.0.2.1", "2001:db8::1"]),
)


def make(id: str, **fields: Any) -> Rule:  # noqa: A002 - as Rule has it
    return Rule(id, **{"limit": "5/minute", **fields})


@given(st.lists(st.tuples(matches, modes), max_size=12), st.lists(requests, min_size=1, max_size=5))
def test_the_index_finds_what_comparing_every_rule_finds(written: list[Any], asked: list[Request]) -> None:
    rules = [
        make(f"r{number}", match=match, mode=mode, limit=f"{number + 1}/minute")
        for number, (match, mode) in enumerate(written)
    ]
    ruleset = RuleSet(rules)
    for request in asked:
        segments = segments_of(canonical_path(request.path))
        expected = {
            rule.id
            for rule in rules
            if rule.mode != "off"
            and (rule.match.path is None or rule.match.path.matches(segments))
            and rule.match.holds(request)
        }
        found, shown = ruleset.matching(request)
        assert sorted(rule.id for rule in found) == sorted(expected)
        assert shown == segments


def test_a_deep_path_costs_no_recursion() -> None:
    ruleset = RuleSet([make("deep", match={"path": "/a/**"})])
    found, segments = ruleset.matching(Request(path="/a" * 50_000))
    assert [rule.id for rule in found] == ["deep"]
    assert len(segments) == 50_000


def test_an_empty_set_matches_nothing() -> None:
    assert RuleSet().matching(Request(path="/x")) == ([], ["x"])


def test_a_set_is_a_snapshot() -> None:
    rules = [make("a")]
    ruleset = RuleSet(rules, revision=7)
    rules.append(make("b"))
    assert [rule.id for rule in ruleset.rules] == ["a"]
    assert ruleset.revision == 7
    with pytest.raises(TypeError):
        ruleset.by_id["b"] = rules[1]  # type: ignore[index]


def problems(*rules: Rule) -> list[tuple[str | None, str]]:
    try:
        RuleSet(rules)
    except RuleError as error:
        return [(problem.rule, problem.message) for problem in error.problems]
    return []


def test_two_rules_with_one_id_are_refused() -> None:
    assert problems(make("a"), make("a", limit="6/minute")) == [("a", "two rules have this id; give each its own")]


def test_a_rule_that_another_rule_repeats_to_the_letter_is_refused() -> None:
    ((rule, message),) = problems(make("a", match={"path": "/x"}), make("b", match={"path": "/x"}, public_name="other"))
    assert rule == "b"
    assert message.startswith("does what rule 'a' does already")
    assert message.endswith("remove one")


def test_twins_are_found_however_their_limit_is_spelled() -> None:
    one = make("a", match={"path": "/x", "plan": "free"}, limit="60/minute")
    other = Rule("b", match={"plan": "free", "path": "/x"}, capacity=60, refill_per_sec=1)
    assert [rule for rule, _ in problems(one, other)] == ["b"]


@pytest.mark.parametrize(
    "difference",
    [
        {"limit": "6/minute"},
        {"key_by": ["ip"]},
        {"match": {"path": "/y"}},
        {"match": {"path": "/x", "methods": ["GET"]}},
        {"cost": 2},
        {"cost": {"default": 1, "when": [{"path": "/x", "cost": 2}]}},
        {"mode": "shadow"},
        {"mode": "off"},
        {"on_failure": "closed"},
        {"rollout": 50},
    ],
)
def test_rules_that_differ_in_anything_that_decides_are_no_twins(difference: dict[str, Any]) -> None:
    assert problems(make("a", match={"path": "/x"}), make("b", **{"match": {"path": "/x"}, **difference})) == []


def test_rules_without_a_match_are_asked_for_by_name_and_may_be_alike() -> None:
    assert problems(make("a"), make("b"), make("c", match={})) == []


def test_rules_that_are_off_are_not_in_each_others_way() -> None:
    assert problems(*(make(name, match={"path": "/x"}, mode="off") for name in "ab")) == []


def test_a_looser_rule_beside_a_tighter_one_is_kept() -> None:
    assert problems(make("a", match={"path": "/x"}), make("b", match={"path": "/**"}, limit="500/minute")) == []
