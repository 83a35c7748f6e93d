"""What a change does to requests of the past, whole or sampled."""

from __future__ import annotations

import random
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.rules.effect import NO_EFFECT, Affected, effect_to_document
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.sim.preview import Traced, compare

AT_US = 1_750_000_000_000_000
S = 1_000_000


def ruleset(*rules: dict[str, Any]) -> RuleSet:
    return RuleSet([Rule(**{"id": f"r{number}", **rule}) for number, rule in enumerate(rules)])


def steady(client: str, requests: int, every_us: int = S, **fields: Any) -> list[Traced]:
    return [Traced(AT_US + number * every_us, Request(client=client, **fields)) for number in range(requests)]


def in_time(*streams: list[Traced]) -> list[Traced]:
    return sorted(chain(*streams), key=lambda traced: traced.at_us)


def test_who_is_newly_denied_and_when() -> None:
    trace = in_time(steady("acme", 60, plan="gold"), steady("slow", 2, 30 * S))
    effect = compare(ruleset({"limit": "60/minute"}), ruleset({"limit": "30/minute burst 10"}), trace)
    assert (effect.requests, effect.clients, effect.denied_before) == (62, 2, 0)
    assert effect.newly_denied == effect.denied_after == 60 - 10 - 29
    assert effect.newly_denied_ratio == pytest.approx(21 / 62)
    assert (effect.plans, effect.rules) == ({"gold": 21}, {"r0": 21})
    assert effect.most == (Affected("acme", "gold", 21),)
    assert effect.clients_newly_denied == 1
    assert effect.first_at is not None
    assert 1_750_000_010 < effect.first_at < 1_750_000_030
    assert (effect.since, effect.until) == (1_750_000_000, 1_750_000_059)
    assert effect.covered == {"r0": 62}


def test_what_is_newly_allowed() -> None:
    effect = compare(ruleset({"limit": "10/minute"}), ruleset(), steady("acme", 15, 1))
    assert (effect.newly_allowed, effect.newly_denied, effect.denied_before, effect.denied_after) == (5, 0, 5, 0)
    assert effect.covered == {"r0": 15}


def test_no_requests_no_effect() -> None:
    assert compare(ruleset({"limit": "1/minute"}), ruleset(), []) == NO_EFFECT
    assert effect_to_document(NO_EFFECT)["newly_denied_ratio"] == 0


def test_a_rule_in_shadow_mode_denies_nobody() -> None:
    after = ruleset({"limit": "1/minute", "mode": "shadow"})
    assert compare(ruleset(), after, steady("acme", 10)).newly_denied == 0


def test_checks_by_name_and_those_of_a_rule_that_is_gone() -> None:
    named = [Traced(AT_US + number, Request(client="acme"), "r0", 1) for number in range(10)]
    before, after = ruleset({"limit": "10/minute"}), ruleset({"limit": "4/minute"})
    assert compare(before, after, named).newly_denied == 6
    assert compare(after, ruleset(), named).newly_allowed == 6
    assert compare(after, ruleset({"limit": "4/minute", "key_by": ["client", "ip"]}), named).newly_allowed == 6


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=30), st.integers(1, 3))
def test_many_at_one_moment_are_as_many_one_by_one(moments: list[tuple[int, int]], cost: int) -> None:
    before = ruleset({"limit": "9/minute", "cost": cost})
    after = ruleset({"limit": "4/second burst 9", "cost": cost}, {"limit": "20/minute", "key_by": []})
    together = [Traced(AT_US + at * S, Request(client="acme"), times=times) for at, times in sorted(moments)]
    apart = [each._replace(times=1) for each in together for _ in range(each.times)]
    assert compare(before, after, together)._replace(rules={}) == compare(before, after, apart)._replace(rules={})


def test_one_of_a_hundred_stands_for_a_hundred() -> None:
    """Of 5 000 like clients, 50 are sampled: the prediction is that of all."""
    trace = in_time(*(steady(f"client-{number}", 30, 2 * S) for number in range(50)))
    sampled = [each._replace(weight=100.0) for each in trace]
    effect = compare(ruleset({"limit": "60/minute"}), ruleset({"limit": "12/minute"}), sampled)
    whole = compare(ruleset({"limit": "60/minute"}), ruleset({"limit": "12/minute"}), trace)
    assert effect.requests == 100 * whole.requests == 150_000
    assert effect.newly_denied == 100 * whole.newly_denied > 0
    assert effect.clients == 50


@pytest.mark.parametrize("key_by", [[], ["plan"], ["host"]])
def test_a_bucket_that_all_share_is_emptied_by_those_who_are_not_sampled_too(key_by: list[str]) -> None:
    rng = random.Random(7)
    clients = [f"client-{number}" for number in range(2000)]
    moments = sorted((rng.randrange(60 * S), rng.choice(clients)) for _ in range(20_000))
    asked = {"plan": "free", "host": "api.example.com"}
    trace = [Traced(AT_US + at_us, Request(client=client, **asked)) for at_us, client in moments]
    chosen = set(rng.sample(clients, 100))
    sampled = [each._replace(weight=20.0) for each in trace if each.request.client in chosen]
    before, after = ruleset(), ruleset({"limit": "200/second", "key_by": key_by})
    whole, effect = compare(before, after, trace), compare(before, after, sampled)
    assert whole.newly_denied_ratio == pytest.approx(0.4, abs=0.02)
    assert effect.newly_denied_ratio == pytest.approx(whole.newly_denied_ratio, abs=0.06)
