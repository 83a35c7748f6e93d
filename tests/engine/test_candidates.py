"""A limit that is tried beside the one in force: on the same requests, with buckets of its own, and nobody feels it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen import AsyncLimiter, Limiter, Rule
from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.core.decision import Decision
from limen.errors import RuleError
from limen.rules.request import Request
from limen.testing import ManualClock

EVERYTHING = {"path": "/**"}
ACME = Request(client="acme", ip="192.0.2.7")


def verdicts(found: list[Decision]) -> list[tuple[bool, bool]]:
    """What the limit in force and its candidate said, of those that were asked."""
    return [(each.live, each.candidate) for decision in found for each in decision.candidates]


async def test_a_tighter_candidate_says_whom_it_would_refuse_and_refuses_nobody(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="5/minute", candidate="2/minute"))
    found = [await door.take() for _ in range(4)]
    assert [each.allowed for each in found] == [True] * 4
    assert [each.remaining for each in found] == [4, 3, 2, 1]
    assert verdicts(found) == [(True, True), (True, True), (True, False), (True, False)]
    lab.advance(30)
    assert verdicts([await door.take()]) == [(True, True)]


async def test_a_looser_candidate_says_whom_it_would_let_in_and_lets_nobody_in(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="1/minute", candidate="3/minute"))
    found = [await door.take() for _ in range(5)]
    assert [each.allowed for each in found] == [True, False, False, False, False]
    assert verdicts(found) == [(True, True), (False, True), (False, True), (False, False), (False, False)]


async def test_a_request_that_another_rule_refuses_says_nothing_of_the_candidate(lab: Any) -> None:
    rules = [
        Rule("tried", match=EVERYTHING, limit="9/hour", candidate="5/hour"),
        Rule("tight", match=EVERYTHING, limit="2/hour", key_by=["ip"]),
    ]
    door = await lab.open(*rules)
    found = [await door.request(ACME) for _ in range(4)]
    assert [each.allowed for each in found] == [True, True, False, False]
    assert verdicts(found) == [(True, True)] * 2
    elsewhere = [await door.request(ACME._replace(ip=f"192.0.2.{number}")) for number in range(10, 16)]
    assert verdicts(elsewhere) == [(True, True)] * 3 + [(True, False)] * 3


async def test_candidates_of_several_rules_are_each_tried_beside_the_others_in_force(lab: Any) -> None:
    rules = [
        Rule("a", match=EVERYTHING, limit="2/hour", candidate="4/hour"),
        Rule("b", match=EVERYTHING, limit="3/hour", candidate="1/hour", key_by=["ip"]),
    ]
    door = await lab.open(*rules)
    found = [await door.request(ACME) for _ in range(4)]
    assert [each.allowed for each in found] == [True, True, False, False]
    told = [[(each.rule, each.live, each.candidate) for each in decision.candidates] for decision in found]
    assert told == [
        [("a", True, True), ("b", True, True)],
        [("a", True, True), ("b", True, False)],
        [("a", False, True)],
        [("a", False, True)],
    ]


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window", "sliding_log"])
async def test_a_candidate_counts_as_its_rule_does(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="5/hour", candidate="2/hour"))
    found = [await door.take() for _ in range(3)]
    assert verdicts(found) == [(True, True), (True, True), (True, False)]


async def test_a_shadow_rule_has_a_candidate_too(lab: Any) -> None:
    door = await lab.open(Rule("r", match=EVERYTHING, limit="1/hour", candidate="2/hour", mode="shadow"))
    found = [await door.request(ACME) for _ in range(3)]
    assert [(each.allowed, each.shadow) for each in found] == [(True, ()), (True, ("r",)), (True, ("r",))]
    assert verdicts(found) == [(True, True), (False, True), (False, False)]


async def test_a_candidate_is_for_the_clients_that_the_rollout_has_reached(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="5/hour", candidate="1/hour", rollout=50))
    asked = [bool((await door.take(client=f"client {number}")).candidates) for number in range(60)]
    assert 10 < sum(asked) < 50


async def test_a_look_asks_the_candidate_and_spends_nothing(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="5/hour", candidate="1/hour"))
    looks = [await door.peek() for _ in range(3)]
    assert verdicts(looks) == [(True, True)] * 3
    assert verdicts([await door.take(), await door.peek()]) == [(True, True), (True, False)]


async def test_grants_and_resets_are_for_both(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="2/hour", candidate="1/hour"))
    await door.take()
    assert (await door.grant(3, seconds=60)).remaining == 4
    assert verdicts([await door.take() for _ in range(5)]) == [(True, True)] * 3 + [(True, False), (False, False)]
    await door.reset(rule="r")
    assert verdicts([await door.take()]) == [(True, True)]


async def test_a_limit_of_0_refuses_everybody_whatever_is_tried(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="0/minute", candidate="5/minute"))
    found = await door.take()
    assert (found.allowed, found.retry_after_ms, found.source, found.candidates) == (False, None, "none", ())


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"limit": "5/minute", "candidate": "unlimited"}, "nothing to find out"),
        ({"limit": "5/minute", "candidate": "0/minute"}, "nothing to find out"),
        ({"limit": "5/minute", "candidate": "2 concurrent"}, "nothing to find out"),
        ({"limit": "5/minute", "candidate": 5}, "such as '50/minute'"),
        ({"limit": "5/minute", "candidate": "2/fortnight"}, "'fortnight' is not a unit"),
        ({"limit": "5/minute", "candidate": "2/minute", "cost": 3}, "can never pass a bucket of 2"),
        ({"limit": "unlimited", "candidate": "2/minute"}, "mode: shadow"),
        ({"limit": "2 concurrent", "candidate": "2/minute"}, "leave it out"),
    ],
)
def test_a_candidate_that_makes_no_sense_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(RuleError, match=says) as caught:
        Rule("r", **fields)
    assert caught.value.problems[0].field == "candidate"


async def test_while_the_store_is_away_nothing_is_said_of_candidates() -> None:
    async with AsyncLimiter("valkey://127.0.0.1:1", [Rule("r", limit="50/minute", candidate="1/minute")]) as limiter:
        found = [await limiter.check("acme", "r") for _ in range(3)]
    assert {(each.allowed, each.degraded, each.candidates) for each in found} == {(True, True, ())}


def test_both_outcomes_are_counted() -> None:
    observer = PrometheusObserver()
    rules = [Rule("r", limit="2/hour", candidate="1/hour"), Rule("s", limit="1/hour", candidate="2/hour")]
    with Limiter(rules=rules, observer=observer) as limiter:
        for rule in ("r", "s") * 3:
            limiter.check("acme", rule)
    value = observer.registry.get_sample_value
    counted = {
        (rule, live, candidate): value(
            "limen_candidate_decisions_total", {"rule": rule, "live": live, "candidate": candidate}
        )
        for rule in ("r", "s")
        for live in ("allowed", "denied")
        for candidate in ("allowed", "denied")
    }
    assert counted == {
        ("r", "allowed", "allowed"): 1, ("r", "allowed", "denied"): 1, ("r", "denied", "allowed"): None,
        ("r", "denied", "denied"): 1, ("s", "allowed", "allowed"): 1, ("s", "allowed", "denied"): None,
        ("s", "denied", "allowed"): 1, ("s", "denied", "denied"): 1,
    }  # fmt: skip


def test_what_was_counted_of_a_rule_goes_with_it() -> None:
    observer = PrometheusObserver()
    with Limiter(rules=[Rule("r", limit="2/hour", candidate="1/hour")], observer=observer) as limiter:
        observer.watch(limiter)
        limiter.check("acme", "r")
        assert b'limen_candidate_decisions_total{candidate="allowed",live="allowed",rule="r"} 1.0' in observer.render()
        limiter.use_rules([])
        assert b"limen_candidate_decisions_total{" not in observer.render()


def test_explain_and_the_check_api_show_it() -> None:
    with Limiter(rules=[Rule("r", match=EVERYTHING, limit="5/hour", candidate="1/hour")]) as limiter:
        assert limiter.check_request(ACME).to_json()["candidates"] == [{"rule": "r", "live": True, "candidate": True}]
        (story,) = limiter.explain(ACME).to_json()["rules"]
    assert story["candidate"] == {"limit": 1, "remaining": 0, "allows": False}
    assert (story["limit"], story["before"]["remaining"], story["allows"]) == (5, 4, True)


LIMITS = ["3/minute", "2/10s", "5/minute burst 8", "4/hour"]
stories = st.lists(st.sampled_from([0, 0, 0, 1, 9, 40]), max_size=30)


@given(st.sampled_from(LIMITS), st.sampled_from(LIMITS), stories)
@settings(max_examples=60, deadline=None)
def test_a_candidate_says_what_it_would_say_in_force(live: str, tried: str, pauses: list[int]) -> None:
    clock = ManualClock()
    with (
        Limiter(rules=[Rule("r", limit=live, candidate=tried)], clock=clock) as beside,
        Limiter(rules=[Rule("r", limit=tried)], clock=clock) as in_force,
    ):
        for pause in pauses:
            clock.advance(pause)
            (compared,) = beside.check("acme", "r").candidates
            assert compared.candidate == in_force.check("acme", "r").allowed


@given(st.sampled_from(LIMITS), st.sampled_from(LIMITS), stories)
@settings(max_examples=60, deadline=None)
def test_nobody_feels_a_candidate(live: str, tried: str, pauses: list[int]) -> None:
    clock, other = ManualClock(), Rule("other", match=EVERYTHING, limit="6/minute")
    tried_beside = Rule("r", match=EVERYTHING, limit=live, candidate=tried)
    with (
        Limiter(rules=[tried_beside, other], clock=clock) as beside,
        Limiter(rules=[Rule("r", match=EVERYTHING, limit=live), other], clock=clock) as without,
    ):
        for pause in pauses:
            clock.advance(pause)
            assert beside.check_request(ACME)._replace(candidates=()) == without.check_request(ACME)
