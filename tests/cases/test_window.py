"""Public faults of limiters at the edges of windows, none of which is ours. Each test is named after its case."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from limen.adapters.http import retry_after_s
from limen.rules.model import Rule


async def log(lab: Any, limit: str) -> Any:
    return await lab.open(Rule("r", algorithm="sliding_log", limit=limit))


async def test_WB_01_no_edge_at_which_twice_the_limit_passes(lab: Any) -> None:
    door = await lab.bucket(10, Fraction(1, 6))
    lab.at(59)
    assert all([(await door.take()).allowed for _ in range(10)])
    lab.at(60.1)
    assert not any([(await door.take()).allowed for _ in range(10)])


async def test_WB_01_a_log_has_no_edge_either(lab: Any) -> None:
    door = await log(lab, "10/minute")
    lab.at(59)
    assert all([(await door.take()).allowed for _ in range(10)])
    lab.at(60.1)
    assert not any([(await door.take()).allowed for _ in range(10)])


@pytest.mark.parametrize("limit", ["10/minute", "10/calendar minute"])
async def test_WB_01_a_fixed_window_lets_twice_the_limit_through_at_most_as_documented(lab: Any, limit: str) -> None:
    door = await lab.open(Rule("r", algorithm="fixed_window", limit=limit))
    lab.at(-lab.origin_s % 60)  # a minute begins
    await door.take()
    total = 0
    for second in (59, 60.1, 61):
        lab.at(-lab.origin_s % 60 + second)
        total += sum([(await door.take()).allowed for _ in range(15)])
    assert total == 9 + 10


async def test_WB_02_the_wait_does_not_depend_on_the_minute_of_the_clock(lab: Any) -> None:
    door = await lab.open("1/minute")
    lab.at(59.995)
    assert (await door.take(client="k1")).allowed
    lab.at(60.005)
    refused = await door.take(client="k1")
    assert (refused.allowed, refused.retry_after_ms, retry_after_s(refused)) == (False, 59_990, 60)
    lab.at(90)
    assert (await door.take(client="k2")).allowed
    refused = await door.take(client="k2")
    assert (refused.allowed, refused.retry_after_ms, retry_after_s(refused)) == (False, 60_000, 60)


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_log"])
async def test_WB_02_a_window_begins_with_the_client_and_not_with_the_minute(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="1/minute"))
    lab.at(59.995)
    assert (await door.take(client="k1")).allowed
    lab.at(60.005)
    refused = await door.take(client="k1")
    assert (refused.allowed, refused.retry_after_ms, retry_after_s(refused)) == (False, 59_990, 60)
    lab.at(90)
    assert (await door.take(client="k2")).allowed
    refused = await door.take(client="k2")
    assert (refused.allowed, refused.retry_after_ms, retry_after_s(refused)) == (False, 60_000, 60)


async def test_WB_04_the_wait_is_until_the_next_token_not_a_period_from_the_last(lab: Any) -> None:
    door = await lab.bucket(2, Fraction(1, 30))
    for second in (0, 10):
        lab.at(second)
        assert (await door.take()).allowed
    lab.at(20)
    assert (await door.take()).retry_after_ms == 10_000
    lab.at(30)
    assert (await door.take()).allowed


async def test_WB_04_a_log_waits_for_its_oldest_entry(lab: Any) -> None:
    door = await log(lab, "2/minute")
    for second in (0, 10):
        lab.at(second)
        assert (await door.take()).allowed
    lab.at(20)
    assert (await door.take()).retry_after_ms == 40_000
    lab.at(60)
    assert (await door.take()).allowed


async def test_WB_05_who_keeps_the_pace_is_never_refused(lab: Any) -> None:
    door = await lab.bucket(10, 1)
    found = []
    for second in (*range(10), 9.5, 10):
        lab.at(second)
        found.append((await door.take()).allowed)
    assert found == [True] * 12


async def test_WB_05_a_log_lets_in_when_the_first_leaves(lab: Any) -> None:
    door = await log(lab, "10 per 10s")
    for second in range(10):
        lab.at(second)
        assert (await door.take()).allowed
    lab.at(9.5)
    refused = await door.take()
    assert (refused.allowed, refused.retry_after_ms, retry_after_s(refused)) == (False, 500, 1)
    lab.at(10)
    assert (await door.take()).allowed


async def test_WB_07_the_first_call_after_a_pause_finds_what_grew(lab: Any) -> None:
    door = await lab.bucket(3, Fraction(3, 10))
    for second in (0, 1, 2):
        lab.at(second)
        await door.take()
    lab.at(12.001)
    decision = await door.take()
    assert (decision.allowed, decision.remaining) == (True, 2)


async def test_WB_07_a_log_forgets_before_it_counts(lab: Any) -> None:
    door = await log(lab, "3 per 10s")
    for second in (0, 1, 2):
        lab.at(second)
        await door.take()
    lab.at(12.001)
    decision = await door.take()
    assert (decision.allowed, decision.remaining) == (True, 2)


async def test_WB_08_a_new_window_begins_with_its_whole_limit(lab: Any) -> None:
    door = await lab.open(Rule("r", algorithm="fixed_window", limit="100 per 5s"))
    for step in range(30):
        lab.at(step * 4.9 / 29)
        await door.take()
    found = []
    for second in (4.999, 5.0, 5.001):
        lab.at(second)
        decision = await door.take()
        found.append((decision.remaining, decision.reset_after_ms))
    assert found == [(69, 1), (99, 5000), (98, 4999)]


async def test_WB_08_remaining_and_reset_always_tell_of_the_same_moment(lab: Any) -> None:
    door = await lab.bucket(100, 20)
    for step in range(30):
        lab.at(step * 0.169)
        await door.take()
    for second in (4.999, 5.0, 5.001, 12):
        lab.at(second)
        decision = await door.take()
        missing = decision.reset_after_ms * 20 / 1000
        assert 100 - decision.remaining - 1 < missing <= 100 - decision.remaining + 0.02
    assert (decision.remaining, decision.reset_after_ms) == (99, 50)
