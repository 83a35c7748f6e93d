"""From a question to store operations."""

from __future__ import annotations

from typing import Any

import pytest

from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.engine.plan import Plan, plan_check, plan_request
from limen.errors import SettingsError, UsageError
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet

RULES = RuleSet(
    [
        Rule("plain", limit="10/minute"),
        Rule("ip", limit="11/minute", key_by=["ip"]),
        Rule("all", limit="12/minute", key_by=[]),
        Rule("both", limit="13/minute", key_by=["client", "plan"]),
        Rule("shadow", limit="14/minute", mode="shadow"),
        Rule("off", limit="15/minute", mode="off"),
        Rule("free", limit="unlimited"),
        Rule(
            "dear",
            limit="16/minute",
            match={"path": "/x/**"},
            cost={"default": 2, "when": [{"path": "/x/y", "cost": 5}]},
        ),
    ]
)


def summary(plan: Plan) -> list[tuple[str, str, int, bool]]:
    return [(op.rule, op.identity, op.cost, op.enforce) for op in plan.ops]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("plain", [("plain", "client=192.0.2.7", 3, True)]),
        ("ip", [("ip", "ip=192.0.2.7", 3, True)]),
        ("all", [("all", "*", 3, True)]),
        ("shadow", [("shadow", "client=192.0.2.7", 3, False)]),
        ("off", []),
        ("free", []),
    ],
)
def test_one_named_rule(rule: str, expected: list[Any]) -> None:
    assert summary(plan_check(RULES, "192.0.2.7", rule, 3)) == expected


def test_every_rule_that_matches_a_request_at_its_own_cost() -> None:
    request = Request(path="/x/y", client="acme", plan="free", ip="192.0.2.7")
    assert summary(plan_request(RULES, request)) == [
        ("plain", "client=acme", 1, True),
        ("ip", "ip=192.0.2.7", 1, True),
        ("all", "*", 1, True),
        ("both", "+client=4:acme;plan=4:free", 1, True),
        ("shadow", "client=acme", 1, False),
        ("dear", "client=acme", 5, True),
    ]
    assert summary(plan_request(RULES, request._replace(path="/x/z")))[-1] == ("dear", "client=acme", 2, True)
    assert [name for name, *_ in summary(plan_request(RULES, request._replace(path="/")))][-1] == "shadow"


def test_unknown_rules_are_named_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match="there is no rule 'nothing'; there are: plain, ip, all, both, shadow"):
        plan_check(RULES, "acme", "nothing", 1)
    with pytest.raises(UsageError, match="there are: none at all"):
        plan_check(RuleSet(), "acme", "nothing", 1)


def test_a_name_alone_does_not_say_which_bucket_of_a_rule_with_two_keys_is_meant() -> None:
    with pytest.raises(UsageError, match="use check_request"):
        plan_check(RULES, "acme", "both", 1)


@pytest.mark.parametrize("kind", [Limiter, AsyncLimiter])
def test_what_is_no_store_is_told_what_one_looks_like(kind: type[Limiter] | type[AsyncLimiter]) -> None:
    with pytest.raises(SettingsError, match="valkey://"):
        kind("mysql://localhost")


def test_a_concurrency_rule_is_asked_for_by_slots_and_leaves_requests_alone() -> None:
    ruleset = RuleSet([Rule("exports", limit="2 concurrent")])
    with pytest.raises(UsageError, match="ask for a slot"):
        plan_check(ruleset, "acme", "exports", 1)
    assert plan_request(ruleset, Request(client="acme")).ops == []
