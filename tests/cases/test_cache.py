"""Public faults of caches of refusals, none of which is ours. Each test is named after its case."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from limen.rules.model import Rule
from limen.rules.request import Request

pytestmark = pytest.mark.parametrize("lab", ["Valkey"], indirect=True)


async def sources(door: Any, times: int, cost: int = 1) -> list[tuple[bool, str]]:
    found = [await door.take(cost) for _ in range(times)]
    return [(each.allowed, each.source) for each in found]


async def test_LC_01_a_raised_limit_holds_at_once(lab: Any) -> None:
    door = await lab.open("2/minute")
    assert await sources(door, 4) == [(True, "store"), (True, "store"), (False, "store"), (False, "deny_cache")]
    door.use(Rule("r0", limit="100/minute"))
    lab.advance(1)
    assert await sources(door, 1) == [(True, "store")]


async def test_LC_01_a_reset_holds_at_once(lab: Any) -> None:
    door = await lab.open("2/minute")
    await sources(door, 4)
    await door.reset("acme", "r0")
    assert await sources(door, 1) == [(True, "store")]
    await sources(door, 3)
    await door.reset("acme")
    assert await sources(door, 1) == [(True, "store")]


async def test_LC_01_a_refusal_under_way_does_not_outlive_a_reset(lab: Any) -> None:
    door = await lab.open("2/minute")
    await sources(door, 2)
    late, _ = await asyncio.gather(door.take(), door.reset("acme", "r0"))
    assert (late.allowed, late.source) == (False, "store")
    assert await sources(door, 1) == [(True, "store")]


async def test_LC_02_only_refusals_are_remembered(lab: Any) -> None:
    door = await lab.open("10/hour")
    before = lab.store_calls()
    found = await sources(door, 110)
    assert found == [(True, "store")] * 10 + [(False, "store")] + [(False, "deny_cache")] * 99
    assert lab.store_calls() - before == 11


async def test_LC_04_a_refusal_ends_when_it_said(lab: Any) -> None:
    door = await lab.bucket(1, 4)
    assert await sources(door, 1) == [(True, "store")]
    refused = await door.take()
    assert (refused.allowed, refused.retry_after_ms) == (False, 250)
    lab.at(0.2499)
    assert await sources(door, 1) == [(False, "deny_cache")]
    lab.at(0.251)
    assert await sources(door, 1) == [(True, "store")]


@pytest.mark.parametrize("step_s", [3600, -3600])
async def test_LC_04_wall_time_does_not_move_a_refusal(lab: Any, step_s: int) -> None:
    door = await lab.bucket(1, 4)
    await sources(door, 2)
    before_us = lab.clock.now_us()
    lab.at(step_s)
    lab.clock.set(before_us / 1_000_000)
    lab.clock.advance(0.2499)
    assert await sources(door, 1) == [(False, "deny_cache")]
    lab.clock.advance(0.0011)
    assert (await door.take()).source == "store"


async def test_LC_05_the_refusal_of_a_big_cost_stops_no_small_one(lab: Any) -> None:
    door = await lab.open("10/minute")
    found = [await door.take(cost) for cost in (8, 5, 1, 1, 1)]
    assert [(each.allowed, each.remaining) for each in found] == [
        (True, 2), (False, 2), (True, 1), (True, 0), (False, 0),
    ]  # fmt: skip


async def test_LC_05_what_a_gateway_remembers_is_never_more_than_what_is_there(lab: Any) -> None:
    door = await lab.open("10/minute")
    found = [await door.take(cost) for cost in (8, 5, 1, 5, 5)]
    assert [(each.remaining, each.retry_after_ms) for each in found[3:]] == [(1, 24_000), (1, 24_000)]
    assert [each.source for each in found] == ["store"] * 4 + ["deny_cache"]


async def test_a_hot_client_costs_one_store_call_a_second(lab: Any) -> None:
    door = await lab.open("60/hour")
    await door.take(60)
    before = lab.store_calls()
    for _ in range(1000):
        assert not (await door.take()).allowed
        lab.advance(0.01)
    assert lab.store_calls() - before <= 11


async def test_a_hot_client_is_asked_for_again_when_its_wait_is_over(lab: Any) -> None:
    door = await lab.bucket(1, 10)
    before, passed = lab.store_calls(), 0
    for _ in range(1000):
        passed += (await door.take()).allowed
        lab.advance(0.001)
    assert passed == 10
    assert lab.store_calls() - before <= 2 * passed


async def test_remembered_refusals_count_what_grows(lab: Any) -> None:
    door = await lab.bucket(10, 2)
    await door.take(10)
    assert (await door.take(2)).retry_after_ms == 1000
    lab.advance(0.75)
    seen = await door.take(2)
    assert (seen.source, seen.remaining, seen.retry_after_ms, seen.reset_after_ms) == ("deny_cache", 1, 250, 4250)
    assert (await door.take(1)).allowed


async def test_a_cost_above_the_capacity_is_never_more_than_full(lab: Any) -> None:
    door = await lab.bucket(5, 10)
    await door.take(1)
    await door.take(100)
    lab.advance(0.5)
    seen = await door.take(100)
    assert (seen.source, seen.remaining, seen.retry_after_ms, seen.reset_after_ms) == ("deny_cache", 5, None, 0)


async def test_of_several_remembered_refusals_the_longest_wait_is_told(lab: Any) -> None:
    rules = [
        Rule("short", match={"path": "/**"}, limit="1/second"),
        Rule("long", match={"path": "/**"}, limit="1/minute"),
    ]
    door = await lab.open(*rules)
    found = [await door.request(Request(client="acme")) for _ in range(3)]
    assert [(each.rule, each.retry_after_ms, each.source) for each in found[1:]] == [
        ("long", 60_000, "store"),
        ("long", 60_000, "deny_cache"),
    ]


async def test_a_client_that_is_refused_here_stops_no_other(lab: Any) -> None:
    door = await lab.open(
        Rule("mine", match={"path": "/**"}, limit="1/hour"),
        Rule("all", match={"path": "/**"}, limit="10/hour", key_by=[]),
    )
    for _ in range(5):
        await door.request(Request(client="acme"))
    assert (await door.request(Request(client="other"))).allowed


async def test_shadow_rules_refuse_nobody_from_memory(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="1/hour", mode="shadow"))
    found = [await door.take() for _ in range(3)]
    assert all(each.allowed for each in found)
    assert [each.shadow for each in found] == [(), ("r",), ("r",)]
    assert not door.limiter._denied.entries


async def test_what_is_remembered_is_bounded(lab: Any) -> None:
    door = await lab.open("1/hour")
    door.limiter._denied._max_entries = 100
    for number in range(300):
        await door.take(1, f"client-{number}")
        await door.take(1, f"client-{number}")
    assert len(door.limiter._denied) <= 100
