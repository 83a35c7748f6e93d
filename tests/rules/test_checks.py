"""Rules that never decide are found, and only they are; limits that contradict each other too."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import permutations
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from limen import Limiter, Request, Rule, RuleError, RuleSet
from limen.core.calendar_window import CalendarWindow
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.rules.checks import Finding, findings
from limen.rules.tighter import is_within
from limen.testing import ManualClock

SECOND = 1_000_000
SEARCH = {"path": "/v1/search/**"}


def rule(name: str, limit: str = "100/minute", **fields: Any) -> Rule:
    return Rule(name, **{"match": SEARCH, "limit": limit, **fields})


def found(*rules: Rule) -> list[tuple[str, str, str | None]]:
    return [(each.kind, each.rule, each.other) for each in findings(rules)]


@pytest.mark.parametrize(
    ("tight", "loose"),
    [
        ("10/minute", "20/minute"),
        ("10/minute", "10/minute burst 11"),
        ("1/minute", "61/hour"),
        ("0/minute", "1/hour"),
        ("10/second burst 5", "1000000/day"),
        ("1/minute", "60/hour"),
        ("10/minute burst 20", "20/minute"),
        ("1/minute", "46081/month"),
    ],
)
def test_a_looser_limit_on_the_same_requests_is_pointless(tight: str, loose: str) -> None:
    for rules in permutations([rule("tight", tight), rule("loose", loose)]):
        assert found(*rules) == [("contradicts", "loose", "tight")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("20/second", "1000/day"),
        ("2/minute", "60/hour"),
        ("10/minute burst 21", "20/minute"),
        ("10/minute", "unlimited"),
        ("1/minute", "43201/month"),
    ],
)
def test_two_limits_that_both_decide_are_no_finding(one: str, other: str) -> None:
    both = [
        rule("one", one, match={"path": "/a"}),
        rule("other", other, match={"path": "/b" if "un" in other else "/a"}),
    ]
    assert found(*both) == []


def test_a_wider_rule_that_is_tighter_shadows() -> None:
    wide, narrow = (
        rule("wide", "10/minute"),
        rule("narrow", "20/minute", match={"path": "/v1/search/deep", "plan": "free"}),
    )
    assert found(wide, narrow) == [("shadowed", "narrow", "wide")]
    assert str(findings([wide, narrow])[0]) == (
        "rule 'narrow' never decides: rule 'wide' covers all of its requests, "
        "and what that lets through is within this limit"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": "shadow"},
        {"mode": "off"},
        {"rollout": 50},
        {"key_by": ["ip"]},
        {"key_by": ["client", "ip"]},
        {"match": {"path": "/v1/search/deep"}},
        {"match": {"path": "/v1/search/**", "plan": "free"}},
        {"cost": 0},
        {"limit": "unlimited"},
        {"limit": "200/minute"},
    ],
)
def test_a_rule_that_is_not_tighter_for_every_request_shadows_nothing(fields: dict[str, Any]) -> None:
    assert [name for kind, name, _ in found(rule("tight", **{"limit": "10/minute", **fields}), rule("loose"))] != [
        "loose"
    ]


def test_what_differs_beside_the_limit_can_make_a_rule_matter() -> None:
    tight = rule("tight", "10/minute")
    assert found(tight, rule("loose", on_failure="closed")) == []
    assert found(tight, rule("loose", cost={"default": 1, "when": [{"path": "/v1/search/deep", "cost": 5}]})) == []
    assert found(tight, rule("loose", mode="shadow")) == []
    assert found(rule("all", "10/minute", key_by=[]), rule("loose")) == [("shadowed", "loose", "all")]


def test_rules_without_a_match_may_be_asked_for_by_name() -> None:
    assert found(Rule("search", limit="10/minute"), Rule("export", limit="20/minute")) == []
    assert found(Rule("all", limit="10/minute"), rule("loose")) == [("shadowed", "loose", "all")]


def test_segments_of_a_path_are_compared_by_their_place() -> None:
    one = rule("one", "10/minute", match={"path": "/{org}/x"}, key_by=["path.org"])
    same = rule("same", "20/minute", match={"path": "/{team}/x"}, key_by=["path.team"])
    another = rule("another", "20/minute", match={"path": "/{org}/{team}"}, key_by=["path.team"])
    assert found(one, same) == [("contradicts", "same", "one")]
    assert found(one, another) == []


def test_unlimited_lifts_nothing() -> None:
    everybody, vip = Rule("everybody", limit="100/minute"), rule("vip", "unlimited", match={"client": "vip"})
    assert found(everybody, vip) == [("contradicts", "vip", "everybody")]
    assert found(rule("free", match={"plan": "free"}), rule("gold", "unlimited", match={"plan": "gold"})) == []


def test_what_a_limit_of_0_refuses_nobody_else_allows() -> None:
    ban = rule("ban", "0/minute", match={"client": "spam"})
    loose = rule("loose", match={"client": "spam", "path": "/v1/**"})
    assert [str(each) for each in findings([ban, loose])] == [
        "rule 'loose' allows nothing: rule 'ban' has a limit of 0 and refuses all of its requests"
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rollout": 0}, "covers nobody with its rollout of 0"),
        ({"cost": {"when": [{"path": "/v2/deep", "cost": 5}]}}, "never charges 5: entry 1 of its cost matches none"),
        (
            {"cost": {"when": [{"cost": 2}, {"plan": "free", "cost": 5}]}},
            "never charges 5: entry 2 of its cost is covered by one before it",
        ),
    ],
)
def test_what_never_comes_to_bear_is_told(fields: dict[str, Any], said: str) -> None:
    (told,) = findings([rule("search", **fields)])
    assert (told.kind, told.rule) == ("idle", "search")
    assert said in str(told)


def test_only_what_concerns_some_rules() -> None:
    rules = [rule("tight", "10/minute"), rule("loose"), rule("idle", rollout=0, match={"path": "/b"})]
    assert [each.rule for each in findings(rules)] == ["loose", "idle"]
    assert [each.rule for each in findings(rules, ["tight"])] == ["loose"]
    assert [each.rule for each in findings(rules, ["idle", "none"])] == ["idle"]


@pytest.mark.parametrize(
    "header", [{"x tier": "gold"}, {"": "gold"}, {"x:y": "gold"}, {"x-tier": "gold "}, {"x-tier": ["a\nb"]}]
)
def test_a_field_that_no_request_has_is_an_error(header: dict[str, Any]) -> None:
    with pytest.raises(RuleError, match="no request has"):
        rule("search", match={"header": header})


def test_many_rules_are_looked_at_in_no_time_that_grows_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[tuple[object, object]] = []
    from limen.rules import checks

    judge = checks._never_decides
    monkeypatch.setattr(checks, "_never_decides", lambda *pair: bool(looked.append(pair)) or judge(*pair))
    rules = [
        rule(f"r{number}", f"{number % 7 + 1}/minute", match={"path": f"/v1/thing-{number}/{{id}}/**"})
        for number in range(2000)
    ]
    assert (
        findings([*rules, *(rule(f"c{number}", match={"client": f"client-{number}"}) for number in range(2000))]) == ()
    )
    assert len(looked) < 100


LIMITS = [
    "2/second", "3/second", "4/2 seconds", "2/second burst 4", "6/3s", "5/4s", "0/minute",
    "4/calendar minute", "5/calendar minute",
]  # fmt: skip
ALGORITHMS = ["token_bucket", "fixed_window", "sliding_window", "sliding_log"]


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "limit": st.sampled_from(LIMITS),
    "algorithm": st.sampled_from([None, *ALGORITHMS]),
    "cost": st.sampled_from([1, 2, {"default": 1, "when": [{"path": "/a/deep", "cost": 2}]}]),
    "key_by": st.sampled_from([["client"], ["client", "plan"], []]),
    "match": st.sampled_from([{"path": "/a/**"}, {"path": "/a/deep"}, {"path": "/a/**", "plan": "free"}]),
}


@st.composite
def two_rules(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two that are rather alike."""
    one = draw(st.fixed_dictionaries(FIELDS))
    others = {name: strategy for name, strategy in FIELDS.items() if name != "limit"}
    other = {**one, **draw(st.fixed_dictionaries({"limit": FIELDS["limit"]}, optional=others))}
    for fields in (one, other):
        if "burst" in fields["limit"] or "calendar" in fields["limit"]:
            fields["algorithm"] = None
    return one, other


REQUESTS = st.tuples(
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.999999, 1.0, 1.000001, 2.0]),
    st.sampled_from(["/a", "/a/deep"]),
    st.sampled_from(["acme", "zoo"]),
    st.sampled_from(["free", "gold"]),
)


@settings(
    max_examples=1500 if os.environ.get("LIMEN_LONG") else 60, suppress_health_check=[HealthCheck.filter_too_much]
)
@given(two_rules(), st.lists(REQUESTS, min_size=5, max_size=25))
def test_a_rule_that_is_said_never_to_decide_never_does(
    both: tuple[dict[str, Any], dict[str, Any]], requests: list[tuple[float, str, str, str]]
) -> None:
    one, other = both
    try:
        rules = RuleSet([Rule("one", **one), Rule("other", **other)])
    except RuleError:
        assume(False)
    told = findings(rules.rules)
    assume(told)
    with Limiter(rules=rules, clock=(clock := ManualClock())) as limiter:
        for waits, path, client, plan in requests:
            clock.advance(waits)
            request = Request(path=path, client=client, plan=plan)
            allows = {story.rule.id: story.allows for story in limiter.explain(request).rules if story.op}
            assert_only_others_refuse(told, allows)
            limiter.check_request(request)


def assert_only_others_refuse(told: tuple[Finding, ...], allows: dict[str, bool | None]) -> None:
    for finding in told:
        if allows.get(finding.rule) is False:
            assert allows[str(finding.other)] is False, finding


@pytest.mark.parametrize(
    ("tight", "loose", "within"),
    [
        (
            FixedWindow(2, SECOND),
            Limit(3, Fraction(2)),
            False,
        ),  # two in the last instant of one and in the first of the next
        (FixedWindow(2, SECOND), Limit(4, Fraction(2)), True),
        (FixedWindow(2, SECOND), Limit(4, Fraction(1)), False),
        (SlidingLog(2, SECOND), Limit(2, Fraction(2)), True),
        (SlidingLog(3, SECOND), SlidingWindow(5, SECOND), False),  # its estimate holds a part of the window before
        (SlidingLog(3, SECOND), SlidingWindow(6, SECOND), True),
        (SlidingLog(3, SECOND), FixedWindow(3, SECOND), True),
        (SlidingLog(3, SECOND), FixedWindow(3, SECOND + 1), False),
        (Limit(5, Fraction(1)), SlidingLog(6, SECOND), True),
        (Limit(5, Fraction(1)), SlidingLog(5, SECOND), False),
        (CalendarWindow.of(5, "day"), CalendarWindow.of(6, "day"), True),
        (CalendarWindow.of(5, "day"), CalendarWindow.of(6, "day", ZoneInfo("Europe/Berlin")), False),
        (CalendarWindow.of(5, "day"), CalendarWindow.of(160, "month"), False),
        (CalendarWindow.of(5, "day"), CalendarWindow.of(200, "month"), True),
    ],
)
def test_a_limit_is_within_another_only_where_that_is_certain(tight: Any, loose: Any, within: bool) -> None:
    assert is_within(tight, loose, alike=False) is within


def test_windows_that_begin_at_other_moments_are_not_taken_for_each_other() -> None:
    one = rule("one", "10/minute", algorithm="fixed_window")
    narrow = rule("narrow", "19/minute", algorithm="fixed_window", match={"path": "/v1/search/deep"})
    assert found(one, narrow) == []
    assert not is_within(one.limit, narrow.limit, alike=False)  # type: ignore[arg-type]
    assert found(one, rule("narrow", "30/minute", algorithm="fixed_window", match={"path": "/v1/search/deep"})) != []
