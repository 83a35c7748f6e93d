"""What every kind of limiter over every kind of store does, in one body."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from random import Random
from typing import Any

import pytest

from limen.core.decision import Decision
from limen.errors import UsageError
from limen.rules.model import Rule
from limen.rules.request import Request

valkey_only = pytest.mark.parametrize("lab", ["Valkey"], indirect=True)


async def test_a_burst_passes_then_the_rate(lab: Any) -> None:
    door = await lab.bucket(3, 2)
    found = [await door.take() for _ in range(4)]
    assert [(each.allowed, each.remaining, each.retry_after_ms, each.reset_after_ms) for each in found] == [
        (True, 2, 0, 500),
        (True, 1, 0, 1000),
        (True, 0, 0, 1500),
        (False, 0, 500, 1500),
    ]
    lab.advance(0.499999)
    assert not (await door.take()).allowed
    lab.advance(0.000001)
    assert (await door.take()).allowed


async def test_a_cost_of_0_looks_and_spends_nothing(lab: Any) -> None:
    door = await lab.bucket(3, 1)
    await door.take(2)
    looks = [await door.take(0) for _ in range(5)]
    assert {(look.allowed, look.remaining) for look in looks} == {(True, 1)}
    await door.take(1)
    empty = await door.take(0)
    assert (empty.allowed, empty.remaining) == (True, 0)


async def test_a_look_at_a_new_client_leaves_nothing_behind(lab: Any) -> None:
    door = await lab.bucket(3, 1)
    assert (await door.take(0)).remaining == 3
    assert (await door.peek()).remaining == 3
    assert (await door.take(4)).allowed is False
    if lab.redis is not None:
        assert lab.stored() == []


async def test_a_cost_above_the_capacity_takes_nothing_and_can_never_pass(lab: Any) -> None:
    door = await lab.bucket(5, 1)
    for cost in (6, 10**9):
        refused = await door.take(cost)
        assert (refused.allowed, refused.reason, refused.retry_after_ms) == (False, "exceeds_capacity", None)
    assert (await door.take(5)).allowed


async def test_peek_says_what_check_would_and_spends_nothing(lab: Any) -> None:
    door = await lab.bucket(2, 1)
    for _ in range(3):
        seen = await door.peek()
        assert (seen.allowed, seen.remaining, seen.reset_after_ms) == (True, 2, 0)
    await door.take(2)
    seen = await door.peek()
    assert (seen.allowed, seen.remaining, seen.retry_after_ms, seen.reset_after_ms) == (False, 0, 1000, 2000)
    assert seen._replace(source="none") == (await door.take())._replace(source="none")


async def test_a_refused_request_charges_no_rule(lab: Any) -> None:
    rules = [
        Rule("second", match={"path": "/**"}, limit="1/second"),
        Rule("all", match={"path": "/**"}, limit="10/minute", key_by=[]),
        Rule("plan", match={"path": "/**"}, limit="5/minute", key_by=["plan"]),
    ]
    door = await lab.open(*rules)
    request = Request(client="acme", plan="free")
    assert (await door.request(request)).allowed
    for _ in range(20):
        refused = await door.request(request)
        assert (refused.allowed, refused.rule, refused.retry_after_ms) == (False, "second", 1000)
    left = [(await door.peek(client=client, rule=rule)).remaining for rule, client in (("all", ""), ("plan", "free"))]
    assert left == [9, 4]


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_the_order_of_rules_does_not_matter(lab: Any, order: tuple[int, ...]) -> None:
    rules = [
        Rule("a", match={"path": "/**"}, limit="2/second burst 3"),
        Rule("b", match={"path": "/**"}, limit="4/minute", key_by=["ip"], cost=2),
        Rule("c", match={"path": "/**"}, limit="7/10s", mode="shadow"),
    ]
    door = await lab.open(*[rules[index] for index in order])
    request = Request(client="acme", ip="192.0.2.7")
    found = []
    for _ in range(4):
        found.append(await door.request(request))
        lab.advance(0.1)
    assert [(each.allowed, each.rule, each.remaining) for each in found] == [
        (True, "b", 2),
        (True, "b", 0),
        (False, "b", 0),
        (False, "b", 0),
    ]
    assert found[2].retry_after_ms == 29_800


async def test_shadow_rules_report_and_stop_nobody(lab: Any) -> None:
    rules = [
        Rule("real", match={"path": "/**"}, limit="5/minute"),
        Rule("planned", match={"path": "/**"}, limit="2/minute", mode="shadow"),
    ]
    door = await lab.open(*rules)
    found = [await door.request(Request(client="acme")) for _ in range(6)]
    assert [each.allowed for each in found] == [True] * 5 + [False]
    assert [each.shadow for each in found][:5] == [(), (), ("planned",), ("planned",), ("planned",)]
    assert {each.rule for each in found} == {"real"}


async def test_a_reset_gives_a_full_bucket_under_one_rule_or_all(lab: Any) -> None:
    door = await lab.open("2/hour", "3/hour")
    for rule in ("r0", "r1"):
        await door.take(2, rule=rule)
        await door.take(2, rule=rule, client="other")
    await door.reset("acme", "r0")
    assert (await door.peek(rule="r0")).remaining == 2
    assert (await door.peek(rule="r1")).remaining == 1
    await door.reset("acme")
    assert (await door.peek(rule="r1")).remaining == 3
    assert (await door.peek(rule="r0", client="other")).remaining == 0
    assert not (await door.take(rule="r0", client="other")).allowed


async def test_a_reset_of_who_is_unknown_does_nothing(lab: Any) -> None:
    door = await lab.open("2/hour")
    await door.reset("nobody")
    await door.reset("nobody", "r0")
    assert (await door.take(client="nobody")).remaining == 1


async def test_rules_and_clients_do_not_share_buckets(lab: Any) -> None:
    door = await lab.open("1/hour", "1/hour burst 2")
    names = ["acme", "ACME", "acme ", "", "a" * 10_000, "é", "e\u0301", "{acme}", "\udc80", "a\nb", "a;b"]
    for name in names:
        assert (await door.take(client=name)).allowed
        assert not (await door.take(client=name)).allowed
        assert (await door.take(client=name, rule="r1")).remaining == 1


async def test_wrong_questions_are_usage_errors_and_change_nothing(lab: Any) -> None:
    door = await lab.bucket(3, 1)
    for cost in (-1, -100, 1.5, 0.5, float("nan"), float("inf"), "2", True, None):
        with pytest.raises(UsageError, match="whole number of tokens"):
            await door.take(cost)
    with pytest.raises(UsageError, match="there is no rule 'unknown'"):
        await door.take(rule="unknown")
    assert (await door.peek()).remaining == 3


async def test_several_limiters_on_one_store_are_one_limit(lab: Any) -> None:
    rule = Rule("r", limit="10/hour")
    doors = [await lab.open(rule) for _ in range(4)]
    found = [await door.take() for _ in range(5) for door in doors]
    assert [each.allowed for each in found] == [True] * 10 + [False] * 10
    assert [each.remaining for each in found[:10]] == list(range(9, -1, -1))


VARIED = [
    Rule("r0", match={"path": "/**"}, capacity=5, refill_per_sec=Fraction(10, 13)),
    Rule("r1", match={"path": "/**"}, capacity=20, refill_per_sec=7, key_by=[]),
    Rule("r2", match={"path": "/**"}, capacity=1, refill_per_sec=Fraction(1, 3), key_by=["ip"]),
    Rule("r3", match={"path": "/**"}, capacity=1000, refill_per_sec=997, key_by=["client", "ip"]),
    Rule("r4", match={"path": "/**"}, capacity=10, refill_per_sec=0, mode="shadow"),
]


@valkey_only
@pytest.mark.parametrize("seed", range(4))
async def test_limiters_with_a_store_decide_as_the_one_in_memory(lab: Any, seed: int) -> None:
    random = Random(seed)
    shared = await lab.open(*VARIED)
    lab.kind = "Limiter"
    alone = await lab.open(*VARIED)
    for _ in range(150):
        client, ip = random.choice("abc"), f"192.0.2.{random.randrange(2)}"
        if random.random() < 0.5:
            request = Request(client=client, ip=ip)
            pair = await shared.request(request), await alone.request(request)
        else:
            rule, cost = random.choice(["r0", "r2", "r4"]), random.choice([0, 1, 1, 2, 6])
            pair = await shared.take(cost, client, rule), await alone.take(cost, client, rule)
        assert likeness(pair[0]) == likeness(pair[1])
        lab.advance(random.choice([0, 0, 0.001, 0.3, 2]))


def likeness(decision: Decision) -> Decision:
    """What must not depend on who remembers: refusals that a gateway remembers report no shadow rules."""
    return decision._replace(source="none", shadow=() if not decision.allowed else decision.shadow)


@valkey_only
async def test_keys_say_nothing_about_clients_and_live_as_long_as_needed(lab: Any) -> None:
    rules = [
        Rule("by-client", match={"path": "/**"}, limit="10/minute"),
        Rule("by-ip", match={"path": "/**"}, limit="1000/hour", key_by=["ip"]),
        Rule("by-both", match={"path": "/**"}, limit="5/day", key_by=["client", "header.X-Api-Key"]),
    ]
    door = await lab.open(*rules)
    await door.request(Request(client="sensitive", ip="192.0.2.7", headers={"x-api-key": "secret"}))
    keys = lab.stored()
    assert len(keys) == 3
    stored = b"".join(key + b"".join(sum(lab.redis.hgetall(key).items(), ())) for key in keys)
    for text in (b"sensitive", b"secret", b"192.0.2", b"by-"):
        assert text not in stored
    assert sorted(lab.redis.pttl(key) for key in keys) == [
        pytest.approx(2 * 3_600 + 1000, abs=500),
        pytest.approx(2 * 6_000 + 1000, abs=500),
        pytest.approx(17_280_000 + 30_000 + 1000, abs=500),
    ]


@valkey_only
async def test_a_request_asks_the_store_once_whatever_the_number_of_rules(lab: Any) -> None:
    keys = {"a": ["client"], "b": ["ip"], "c": [], "d": ["client", "ip"], "e": ["plan"]}
    rules = [Rule(name, match={"path": "/**"}, limit="9/minute", key_by=key_by) for name, key_by in keys.items()]
    door = await lab.open(*rules)
    before = lab.store_calls()
    decision = await door.request(Request(client="acme", ip="192.0.2.7", plan="free"))
    assert (decision.source, lab.store_calls() - before) == ("store", 1)
