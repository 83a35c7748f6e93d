"""Public faults of limiters with several rules and with rules that change. Each test is named after its case."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from limen.adapters.http import DEFAULT_DIALECTS, denial, dialects
from limen.rules.model import Rule
from limen.rules.request import Request

pytestmark = pytest.mark.usefixtures("clean_keys")
EVERYTHING = {"path": "/**"}


def calls(lab: Any) -> int:
    return lab.store_calls() if lab.redis is not None else 0


@pytest.mark.parametrize("turned", [False, True])
async def test_RU_01_a_refused_request_charges_nobody(lab: Any, turned: bool) -> None:
    rules = [Rule("s", match=EVERYTHING, limit="1/second"), Rule("m", match=EVERYTHING, limit="2/minute")]
    door = await lab.open(*(reversed(rules) if turned else rules))
    found = []
    for second in (0, 0, 1, 2):
        lab.at(second)
        found.append(await door.request(Request(client="acme")))
    assert [each.allowed for each in found] == [True, False, True, False]
    assert (found[3].rule, found[3].retry_after_ms) == ("m", 28_000)


async def test_RU_01_a_burst_costs_the_long_limit_what_passed(lab: Any) -> None:
    rules = [Rule("short", match=EVERYTHING, limit="10/minute"), Rule("long", match=EVERYTHING, limit="30 per 30 min")]
    door = await lab.open(*rules)
    found = [await door.request(Request(client="acme")) for _ in range(31)]
    assert [each.allowed for each in found] == [True] * 10 + [False] * 21
    assert (await door.peek(rule="long")).remaining == 20


async def test_RU_01_the_largest_wait_of_the_refusing_rules_is_told(lab: Any) -> None:
    rules = [Rule(f"r{n}", match=EVERYTHING, limit=f"1 per {n}s", cost=1) for n in (30, 3600, 60)]
    door = await lab.open(*rules)
    await door.request(Request(client="acme"))
    for _ in range(3):
        refused = await door.request(Request(client="acme"))
        assert (refused.rule, refused.retry_after_ms) == ("r3600", 3_600_000)


async def test_RU_02_a_throttled_client_leaves_the_common_limit_alone(lab: Any) -> None:
    rules = [Rule("each", match=EVERYTHING, limit="1/hour"), Rule("all", match=EVERYTHING, limit="10/hour", key_by=[])]
    door = await lab.open(*rules)
    found = [(await door.request(Request(client="a"))).allowed for _ in range(20)]
    assert sum(found) == 1
    assert (await door.request(Request(client="b"))).allowed
    assert (await door.peek(rule="all")).remaining == 8


async def test_RU_10_a_raised_limit_reaches_buckets_that_exist(lab: Any) -> None:
    door = await lab.bucket(10, 0.1)
    await door.take(7)
    door.use(Rule("r", capacity=1500, refill_per_sec=1500 / 60))
    decision = await door.take()
    assert (decision.allowed, decision.limit, decision.remaining) == (True, 1500, 2)
    lab.advance(1)
    assert (await door.take()).remaining == 26
    if lab.redis is not None:
        assert lab.redis.pttl(lab.stored()[0]) >= 59_000


async def test_RU_10_a_lowered_limit_holds_at_once_and_changing_back_gives_nothing(lab: Any) -> None:
    door = await lab.bucket(1000, 1)
    await door.take(100)
    door.use(Rule("r", capacity=10, refill_per_sec=1))
    decision = await door.take()
    assert (decision.limit, decision.remaining, decision.reset_after_ms) == (10, 9, 1000)
    door.use(Rule("r", capacity=1000, refill_per_sec=1))
    assert (await door.take()).remaining == 8
    if lab.redis is not None:
        assert lab.redis.pttl(lab.stored()[0]) >= 992_000


@pytest.mark.parametrize(("hits", "left"), [(199, 199), (200, 199), (500, 199), (1900, 99), (1999, 0), (2000, None)])
async def test_RU_11_a_lowered_limit_never_gives_odd_numbers(lab: Any, hits: int, left: int | None) -> None:
    door = await lab.open("2000/day")
    await door.take(hits)
    door.use(Rule("r0", limit="200/day"))
    decision = await door.take()
    assert decision.allowed == (left is not None)
    assert decision.remaining == (left or 0)
    assert (decision.retry_after_ms > 0) == (not decision.allowed)


async def test_RU_13_a_node_with_the_old_rule_cannot_raise_the_cap(lab: Any) -> None:
    new, old = Rule("r", limit="1/hour"), Rule("r", limit="1000000/hour")
    a, b = await lab.open(new), await lab.open(old)
    first = await b.take()
    found = [(await a.take()).allowed, (await a.take()).allowed, (await b.take()).allowed]
    b.use(new)
    found.append((await b.take()).allowed)
    assert first.allowed
    assert found == [True, False, False, False]


async def test_RU_13_stale_writes_between_new_ones_add_nothing(lab: Any) -> None:
    a, b = await lab.open(Rule("r", limit="5/hour")), await lab.open(Rule("r", limit="1000000/hour"))
    passed = 0
    for _ in range(20):
        passed += (await a.take()).allowed + (await b.take()).allowed
    assert passed <= 5 + 1


async def test_RU_19_a_limit_of_0_refuses_everybody_without_a_store(lab: Any) -> None:
    door = await lab.open(Rule("r", match=EVERYTHING, limit="0/minute"))
    before = calls(lab)
    found = []
    for second in (0, 1000):
        lab.at(second)
        found += [await door.take() for _ in range(3)]
        found += [await door.request(Request(client="acme")), await door.peek()]
    assert {(each.allowed, each.reason, each.retry_after_ms, each.source, each.limit) for each in found} == {
        (False, "exceeds_capacity", None, "none", 0)
    }
    answer = denial(found[0], dialects(DEFAULT_DIALECTS))
    assert (answer.status, "retry-after" in dict(answer.headers)) == (429, False)
    assert calls(lab) == before
    door.use(Rule("r", limit="5/minute"))
    assert (await door.take()).remaining == 4


async def test_RU_19_one_forbidden_rule_refuses_whatever_the_others_say(lab: Any) -> None:
    rules = [Rule("a", match=EVERYTHING, limit="1/hour"), Rule("b", match=EVERYTHING, limit="0/hour")]
    door = await lab.open(*rules)
    await door.take(rule="a")
    await door.take(rule="a")
    decision = await door.request(Request(client="acme"))
    assert (decision.rule, decision.retry_after_ms) == ("b", None)


async def test_RU_19_unlimited_is_said_in_so_many_words_and_asks_no_store(lab: Any) -> None:
    door = await lab.open(Rule("r", match=EVERYTHING, limit="unlimited"))
    before = calls(lab)
    found = [await door.take(10**9), await door.request(Request(client="acme")), await door.peek()]
    assert {(each.allowed, each.limit, each.rule, each.source) for each in found} == {(True, None, None, "none")}
    assert calls(lab) == before


async def test_rules_that_are_off_or_not_rolled_out_ask_no_store(lab: Any) -> None:
    rules = [
        Rule("off", match=EVERYTHING, limit="1/hour", mode="off"),
        Rule("none", match=EVERYTHING, limit="2/hour", rollout=0),
    ]
    door = await lab.open(*rules)
    before = calls(lab)
    found = [await door.take(rule=rule) for rule in ("off", "none") for _ in range(3)]
    found += [await door.request(Request(client="acme")) for _ in range(3)]
    assert all(each.allowed and each.limit is None for each in found)
    assert calls(lab) == before


async def test_a_rollout_covers_the_same_clients_by_every_way_of_asking(lab: Any) -> None:
    door = await lab.open(Rule("r", match=EVERYTHING, limit="1/hour", rollout=30))
    covered = []
    for number in range(200):
        await door.take(client=f"client-{number}")
        decision = await door.request(Request(client=f"client-{number}"))
        covered.append(not decision.allowed)
    assert 30 <= sum(covered) <= 90


async def test_rules_are_swapped_as_a_whole(lab: Any) -> None:
    door = await lab.open(Rule("a", limit="1/hour"), Rule("b", limit="2/hour"))
    before = door.limiter.ruleset
    door.use(Rule("b", capacity=7, refill_per_sec=Fraction(1, 3)))
    assert [rule.id for rule in before.rules] == ["a", "b"]
    assert [rule.id for rule in door.limiter.ruleset.rules] == ["b"]
    assert (await door.take(rule="b")).limit == 7
