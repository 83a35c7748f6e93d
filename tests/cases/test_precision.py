"""Public faults of limiters in arithmetic, none of which is ours. Each test is named after its case."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from limen.adapters.http import DEFAULT_DIALECTS, denial, dialects, rate_fields, retry_after_s
from limen.errors import UsageError
from limen.rules.model import Rule

ORIGIN_S = 1_750_000_000
valkey_only = pytest.mark.parametrize("lab", ["Valkey"], indirect=True)


@pytest.mark.parametrize("rate", [10 / 13, 1 / 3, 1 / 7, 3 / 7, 0.1])
async def test_PR_01_waiting_exactly_the_advertised_time(lab: Any, rate: float) -> None:
    door = await lab.bucket(1, rate)
    assert (await door.take()).allowed
    for _ in range(1000 if lab.redis is None else 200):
        refused = await door.take()
        assert not refused.allowed
        lab.advance(refused.retry_after_ms / 1000)
        assert (await door.take()).allowed


async def test_PR_01_ten_in_thirteen_seconds(lab: Any) -> None:
    door = await lab.bucket(1, 10 / 13)
    assert (await door.take()).allowed
    lab.at(1.29)
    assert (await door.take()).retry_after_ms == 10
    lab.at(1.3)
    assert (await door.take()).allowed


async def test_PR_02_an_old_fraction_and_a_long_pause_fill_the_bucket(lab: Any) -> None:
    door = await lab.bucket(1, 1 / 3600)
    assert (await door.take()).allowed
    lab.at(1979.657712)
    assert (await door.take()).retry_after_ms == 1_620_343
    lab.at(864_000)
    assert (await door.peek()).reset_after_ms == 0
    assert (await door.take()).allowed


async def test_PR_04_the_wait_counts_the_part_that_grew(lab: Any) -> None:
    door = await lab.bucket(1, 1)
    await door.take()
    lab.at(0.2)
    assert (await door.take()).retry_after_ms == 800


async def test_PR_05_retry_after_is_rounded_up(lab: Any) -> None:
    door = await lab.bucket(1, 0.5)
    await door.take()
    lab.at(0.6)
    refused = await door.take()
    assert (refused.retry_after_ms, retry_after_s(refused)) == (1400, 2)
    lab.at(2.6)
    assert (await door.take()).allowed


@pytest.mark.parametrize(
    ("capacity", "rate", "takes", "left"),
    [(6000, 6000, 20, range(5999, 5979, -1)), (5, 5, 5, range(4, -1, -1)), (1000, 1000 / 60, 3, (999, 998, 997))],
)
async def test_PR_07_large_fast_limits_count(lab: Any, capacity: int, rate: float, takes: int, left: Any) -> None:
    door = await lab.bucket(capacity, rate)
    for expected in left:
        assert (await door.take()).remaining == expected
        if lab.redis is not None:
            assert lab.redis.pttl(lab.stored()[0]) >= 1
    if capacity == takes:
        assert not (await door.take()).allowed


async def test_PR_08_no_negative_number_and_no_mixed_units(lab: Any) -> None:
    door = await lab.open("2/minute")
    found = [await door.take() for _ in range(3)]
    assert [(each.allowed, each.remaining, each.retry_after_ms, each.reset_after_ms) for each in found] == [
        (True, 1, 0, 30_000),
        (True, 0, 0, 60_000),
        (False, 0, 30_000, 60_000),
    ]


async def test_PR_10_a_cost_equal_to_the_capacity_passes_when_the_bucket_is_full(lab: Any) -> None:
    door = await lab.bucket(5, Fraction(1, 12))
    assert (await door.take(1)).remaining == 4
    refused = await door.take(5)
    assert (refused.reason, refused.retry_after_ms) == ("over_limit", 12_000)
    lab.at(12)
    decision = await door.take(5)
    assert (decision.allowed, decision.remaining) == (True, 0)


async def test_PR_11_a_cost_above_the_capacity_is_not_retryable(lab: Any) -> None:
    door = await lab.bucket(5, Fraction(1, 12))
    refused = await door.take(10)
    assert (refused.allowed, refused.reason, refused.retry_after_ms) == (False, "exceeds_capacity", None)
    assert "retry-after" not in dict(denial(refused, dialects(DEFAULT_DIALECTS)).headers)
    decision = await door.take(1)
    assert (decision.allowed, decision.remaining) == (True, 4)


@pytest.mark.parametrize(
    ("costs", "allowed"), [((8, 2, 1, 1), (True, True, False, False)), ((3, 8, 7, 1), (True, False, True, False))]
)
async def test_PR_13_mixed_costs_spend_one_budget(lab: Any, costs: Any, allowed: Any) -> None:
    door = await lab.open("10/minute")
    assert tuple([(await door.take(cost)).allowed for cost in costs]) == allowed


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window", "sliding_log"])
@pytest.mark.parametrize(
    ("costs", "allowed"),
    [((8, 2, 1, 1), (True, True, False, False)), ((3, 8, 7, 1), (True, False, True, False))],
)
async def test_PR_13_windows_count_costs_too(lab: Any, algorithm: str, costs: Any, allowed: Any) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="10/minute"))
    assert tuple([(await door.take(cost)).allowed for cost in costs]) == allowed


async def test_PR_14_a_negative_cost_is_an_error_and_changes_nothing(lab: Any) -> None:
    door = await lab.bucket(10, 0)
    for _ in range(10):
        assert (await door.take()).allowed
    for cost in (-1, -100):
        with pytest.raises(UsageError, match="cost must be a whole number"):
            await door.take(cost)
    assert not (await door.take()).allowed
    assert (await door.peek()).remaining == 0


async def test_PR_16_a_cost_that_is_no_whole_number_is_refused_before_the_store(lab: Any) -> None:
    door = await lab.bucket(3, 0)
    before = lab.store_calls() if lab.redis is not None else 0
    for cost in (1.5, 0.5, 2.0, float("nan"), float("inf"), "2", True):
        with pytest.raises(UsageError, match="cost must be a whole number"):
            await door.take(cost)
    assert lab.redis is None or lab.store_calls() == before
    assert (await door.peek()).remaining == 3


async def test_PR_17_late_moments_keep_their_microseconds(lab: Any) -> None:
    lab.at(1_999_999_999.999999 - ORIGIN_S)
    door = await lab.bucket(1, 1000)
    assert (await door.take()).allowed
    for _ in range(20):
        lab.advance(0.000999)
        assert not (await door.peek()).allowed
        lab.advance(0.000001)
        assert (await door.take()).allowed


@valkey_only
async def test_PR_17_what_is_stored_has_all_its_digits(lab: Any) -> None:
    lab.at(1_999_999_999.999999 - ORIGIN_S)
    whole = await lab.open(Rule("a", capacity=1, refill_per_sec=1), Rule("b", capacity=10**6, refill_per_sec=1_000_000))
    await whole.take()
    await whole.take(rule="b")
    stored = sorted(lab.redis.hvals(lab.stored()[0]), key=len)
    since_2025 = (1_999_999_999 - 1_735_689_600) * 1_000_000 + 999_999
    assert stored == [b"%d0000" % since_2025, b"999999:%d:0" % since_2025]


async def test_PR_17_a_quarter_of_a_second_arrives_as_such(lab: Any) -> None:
    door = await lab.bucket(1, 1)
    await door.take()
    lab.advance(0.75)
    assert (await door.take()).retry_after_ms == 250


@pytest.mark.parametrize(
    ("rule", "wait_s"),
    [
        (Rule("r", capacity=1, refill_per_sec=1e-9), 10**9),
        (Rule("r", limit="1 per 30 days"), 30 * 86_400),
        (Rule("r", limit="1 per 365 days"), 365 * 86_400),
    ],
)
async def test_PR_19_very_slow_rates(lab: Any, rule: Rule, wait_s: int) -> None:
    door = await lab.open(rule)
    assert (await door.take()).allowed
    refused = await door.take()
    assert (refused.allowed, refused.retry_after_ms) == (False, wait_s * 1000)
    assert dict(denial(refused, dialects(["legacy"])).headers)["retry-after"] == str(wait_s)
    if lab.redis is not None:
        assert wait_s * 1000 - 60_000 < lab.redis.pttl(lab.stored()[0]) <= wait_s * 1000 + 60_000


async def test_PR_20_a_quota_that_never_refills(lab: Any) -> None:
    door = await lab.bucket(5, 0)
    found = [await door.take() for _ in range(7)]
    lab.at(1e6)
    found.append(await door.take())
    assert [each.allowed for each in found] == [True] * 5 + [False] * 3
    assert {each.retry_after_ms for each in found[5:]} == {None}
    assert "x-ratelimit-reset" not in dict(rate_fields(found[5], dialects(["legacy"])))
    if lab.redis is not None:
        assert 0 < lab.redis.pttl(lab.stored()[0]) <= 30 * 86_400_000 + 31_000


async def test_PR_20_a_large_quota_that_never_refills_counts_too(lab: Any) -> None:
    door = await lab.bucket(50_000, 0)
    found = [(await door.take(cost)).remaining for cost in (1, 1, 40_000, 1, 9_000, 997)]
    assert found == [49_999, 49_998, 9_998, 9_997, 997, 0]


async def test_PR_22_frequent_hits_do_not_swallow_the_refill(lab: Any) -> None:
    door = await lab.bucket(10, Fraction(1, 3))
    found = []
    for second in range(11):
        lab.at(second)
        found.append((await door.take()).remaining)
    assert found == [9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2]


async def test_PR_23_a_bucket_does_not_jump_back_to_full(lab: Any) -> None:
    door = await lab.bucket(3, 3)
    found = []
    for tenth in range(30):
        lab.at(tenth / 10)
        found.append(await door.take())
    assert [at for at, each in enumerate(found) if each.allowed] == [0, 1, 2, 4, 7, 10, 14, 17, 20, 24, 27]
    assert {each.remaining for each in found[2:]} == {0}


async def test_PR_25_nobody_waits_while_there_are_tokens(lab: Any) -> None:
    door = await lab.bucket(30, 30)
    assert [(await door.take()).retry_after_ms for _ in range(3)] == [0, 0, 0]


async def test_PR_07_a_million_a_second_is_a_million_a_second(lab: Any) -> None:
    """Asked a thousand times a second for more than there is, what passes in a second is off by less than 0.1 %."""
    door = await lab.bucket(2000, 1_000_000)
    await door.take(2000)
    passed = 0
    for step in range(1, 1001):
        lab.at(step * 0.001)
        for cost in (700, 300, 1):
            passed += cost * (await door.take(cost)).allowed
    assert abs(passed - 1_000_000) <= 1000
