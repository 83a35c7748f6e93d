"""Public faults of limiters with clocks, none of which is ours. Each test is named after its case."""

from __future__ import annotations

from typing import Any

import pytest

from limen.rules.model import Rule
from limen.testing import ManualClock

valkey_only = pytest.mark.parametrize("lab", ["Valkey"], indirect=True)


async def allowed(door: Any, times: int) -> int:
    return sum([(await door.take()).allowed for _ in range(times)])


@valkey_only
async def test_CK_01_a_node_with_a_slow_clock_refills_nothing(lab: Any) -> None:
    rule = Rule("r", capacity=4, refill_per_sec=2)
    a = await lab.open(rule, clock=ManualClock(100))
    b = await lab.open(rule, clock=ManualClock(90))
    assert [await allowed(a, 5), await allowed(b, 1), await allowed(a, 5)] == [4, 0, 0]


@valkey_only
async def test_CK_02_time_is_that_of_the_store_not_that_of_the_question(lab: Any) -> None:
    rule = Rule("r", capacity=5, refill_per_sec=5)
    on_time, late = await lab.open(rule, clock=ManualClock(331)), await lab.open(rule, clock=ManualClock(300))
    total = await allowed(on_time, 5)
    lab.at(1)
    total += await allowed(on_time, 4) + await allowed(late, 1)
    assert total == 10
    assert await allowed(on_time, 4) == 0


async def test_CK_04_a_step_back_never_leaves_a_debt(lab: Any) -> None:
    door = await lab.bucket(20, 1)
    found = []
    for second in (100, 89, 100, 101):
        lab.at(second)
        found.append(await door.take())
    assert all(each.allowed for each in found)
    assert [each.remaining for each in found][:2] == [19, 18]
    assert all(17 <= each.remaining <= 19 for each in found[2:])


async def test_CK_05_a_clock_set_back_by_hours_locks_nobody_out(lab: Any) -> None:
    door = await lab.bucket(10, 1)
    lab.at(100_000)
    assert await allowed(door, 11) == 10
    found = []
    for second in range(21):
        lab.at(71_200 + second)
        found.append((await door.take()).allowed)
    assert 10 <= sum(found) <= 30
    assert not any(found[:1])
    assert found.index(True) <= 10


@valkey_only
async def test_CK_07_monotonic_clocks_of_two_hosts_are_never_compared(lab: Any) -> None:
    rule = Rule("r", limit="10 per 60s")
    clock = ManualClock(50)
    a, b = await lab.open(rule, clock=ManualClock(1_000_000)), await lab.open(rule, clock=clock)
    assert await allowed(a, 10) == 10
    refused = await b.take()
    assert (refused.allowed, refused.source) == (False, "store")
    assert refused.retry_after_ms <= 60_000
    lab.at(60)
    clock.advance(60)
    assert (await b.take()).allowed


@valkey_only
async def test_CK_08_failover_to_a_slow_clock_locks_nobody_out(lab: Any) -> None:
    door = await lab.bucket(10, 1)
    lab.at(1000)
    await allowed(door, 10)
    lab.at(970)
    assert (await door.take()).retry_after_ms <= 10_000
    passed = 0
    for step in range(1, 25):
        lab.at(970 + step / 2)
        passed += await allowed(door, 1)
    assert passed >= 10


@valkey_only
async def test_CK_08_failover_to_a_fast_clock_gives_one_bucket_at_most(lab: Any) -> None:
    door = await lab.bucket(10, 1)
    lab.at(1000)
    await allowed(door, 10)
    lab.at(1030)
    assert await allowed(door, 20) == 10
    for second in range(1, 13):
        lab.at(1030 + second)
        assert await allowed(door, 3) == 1


async def test_CK_10_a_minute_is_sixty_seconds_from_the_first_request(lab: Any) -> None:
    door = await lab.open("5/minute")
    found = []
    for hundredth in range(7):
        lab.at(10 + hundredth / 100)
        found.append(await door.take())
    assert [each.allowed for each in found] == [True] * 5 + [False] * 2
    assert found[5].retry_after_ms == 12_000 - 50


async def test_CK_10_a_calendar_minute_binds_until_it_ends(lab: Any) -> None:
    door = await lab.open("5/calendar minute")
    lab.at(-lab.origin_s % 60 + 10)
    found = []
    for _ in range(7):
        found.append(await door.take())
        lab.advance(0.0142)
    assert [each.allowed for each in found] == [True] * 5 + [False] * 2
    assert found[5].retry_after_ms == 50_000 - 71
    lab.advance(50)
    assert (await door.take()).remaining == 4


async def test_CK_11_a_repeated_second_is_nothing_new(lab: Any) -> None:
    door = await lab.bucket(10, 10)
    total = 0
    for second in (99.9, 100.0, 99.2, 100.0):
        lab.at(second)
        found = [await door.take() for _ in range(10)]
        assert all(each.retry_after_ms <= 1000 for each in found)
        total += sum(each.allowed for each in found)
    assert 11 <= total <= 19
