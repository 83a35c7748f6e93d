"""From levels to a decision: who refuses, who is shown, how long to wait."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.core.limit import Limit
from limen.engine.conclude import UNDECIDED_RETRY_MS, conclude, conclude_banned, conclude_one, no_limit, undecided
from limen.engine.plan import Plan
from limen.rules.model import Rule
from limen.stores.base import Op


def plan(*parts: tuple[str, int, Fraction | int, int, bool]) -> Plan:
    """Rules from (id, capacity, refill per second, cost, enforced)."""
    rules = [
        Rule(name, capacity=capacity, refill_per_sec=rate, mode="enforce" if enforce else "shadow")
        for name, capacity, rate, _, enforce in parts
    ]
    ops = [
        Op("client=a", rule.id, limit_of(rule), cost, enforce)
        for rule, (*_, cost, enforce) in zip(rules, parts, strict=True)
    ]
    return Plan(rules, ops)


def limit_of(rule: Rule) -> Limit:
    assert rule.limit is not None
    return rule.limit


def tokens(plan: Plan, *amounts: float) -> list[int]:
    """Levels from whole or half tokens."""
    return [int(Fraction(amount) * op.limit.token_ticks) for amount, op in zip(amounts, plan.ops, strict=True)]


def test_the_rule_nearest_exhaustion_is_shown() -> None:
    question = plan(("wide", 100, 1, 1, True), ("narrow", 5, 1, 1, True), ("middle", 20, 1, 1, True))
    decision = conclude(question, tokens(question, 50, 4, 10), "store")
    assert (decision.allowed, decision.rule, decision.remaining, decision.limit) == (True, "narrow", 3, 5)


def test_of_rules_with_the_same_tokens_left_the_one_that_takes_longer_to_fill_is_shown() -> None:
    question = plan(("fast", 10, 5, 1, True), ("slow", 10, Fraction(1, 60), 1, True))
    assert conclude(question, tokens(question, 3, 3), "store").rule == "slow"
    never = plan(("slow", 10, Fraction(1, 60), 1, True), ("never", 10, 0, 1, True))
    assert conclude(never, tokens(never, 3, 3), "store").rule == "never"


def test_the_longest_wait_of_those_that_refuse_is_told() -> None:
    question = plan(("a", 5, 1, 3, True), ("b", 5, Fraction(1, 10), 1, True), ("c", 5, Fraction(1, 1000), 1, True))
    decision = conclude(question, tokens(question, 1, 0, 1), "store")
    assert (decision.allowed, decision.rule, decision.retry_after_ms, decision.remaining) == (False, "b", 10_000, 0)


@pytest.mark.parametrize(
    ("capacity", "rate", "cost", "reason"), [(5, 0, 1, "over_limit"), (5, 1, 6, "exceeds_capacity")]
)
def test_never_is_the_longest_wait(capacity: int, rate: int, cost: int, reason: str) -> None:
    question = plan(("day", 5, Fraction(1, 86_400), 1, True), ("never", capacity, rate, cost, True))
    decision = conclude(question, tokens(question, 0, 0), "store")
    assert (decision.rule, decision.retry_after_ms, decision.reason) == ("never", None, reason)


def test_shadow_rules_are_named_and_never_shown() -> None:
    question = plan(("real", 5, 1, 1, True), ("shade", 2, 1, 1, False), ("dark", 2, 1, 5, False))
    decision = conclude(question, tokens(question, 5, 0, 2), "store")
    assert (decision.allowed, decision.rule, decision.shadow) == (True, "real", ("shade", "dark"))
    refused = conclude(question, tokens(question, 0, 2, 2), "store")
    assert (refused.allowed, refused.rule, refused.shadow) == (False, "real", ("dark",))


def test_shadow_rules_alone_limit_nothing() -> None:
    question = plan(("shade", 2, 1, 1, False))
    assert conclude(question, tokens(question, 0), "store") == no_limit(("shade",))
    assert no_limit().status == 200


def test_a_look_shows_what_is_there_and_a_purchase_what_is_left() -> None:
    question = plan(("r", 5, 1, 2, True))
    looked, bought = (conclude(question, tokens(question, 4.5), "store", spend=spend) for spend in (False, True))
    assert (looked.remaining, looked.reset_after_ms) == (4, 500)
    assert (bought.remaining, bought.reset_after_ms) == (2, 2500)


def test_without_a_store_and_with_a_closed_rule_nothing_is_known() -> None:
    rule = Rule("r", limit="5/minute", on_failure="closed")
    decision = undecided(rule)
    assert (decision.status, decision.retry_after_ms, decision.limit, decision.remaining, decision.degraded) == (
        503, UNDECIDED_RETRY_MS, None, None, True,
    )  # fmt: skip


def test_a_forbidden_request_can_never_pass() -> None:
    decision = conclude_banned(Rule("r", limit="0/minute"))
    assert (decision.status, decision.retry_after_ms, decision.remaining) == (429, None, 0)


@given(st.data(), st.integers(1, 1000), st.sampled_from([Fraction(0), Fraction(10, 13), Fraction(7), Fraction(10**6)]))
def test_the_short_cut_for_one_rule_decides_the_same(data: Any, capacity: int, rate: Fraction) -> None:
    question = plan(("r", capacity, rate, data.draw(st.integers(0, capacity + 2)), True))
    (rule,), (op,), _ = question
    level = data.draw(st.integers(0, op.limit.full_ticks))
    short = conclude_one(rule, op.limit, op.cost, level, "store")
    assert short == conclude(question, [level], "store")
    assert 0 <= (short.remaining or 0) <= capacity
    assert short.reset_after_ms is None or short.reset_after_ms >= 0
    assert short.allowed == (short.retry_after_ms == 0)
