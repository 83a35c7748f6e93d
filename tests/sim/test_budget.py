"""What a process leaves of its traffic in an hour is bounded, and heavy traffic is sampled more thinly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from limen.sim.budget import Budget

HOUR_S = 3600


@given(st.lists(st.integers(0, 5000), min_size=50, max_size=400), st.integers(5, 30))
def test_no_more_than_the_budget_is_left_within_a_short_time(sizes: list[int], interval_s: int) -> None:
    budget, left = Budget(10_000), list[tuple[int, int]]()
    for number, size in enumerate(sizes):
        if budget.spend(size, number * interval_s, interval_s):
            left.append((number * interval_s, size))
    for until_s, _ in left:
        within = sum(size for at_s, size in left if until_s - HOUR_S < at_s <= until_s)
        assert within <= 10_000 * 2.72, "what was spent an hour ago counts a third"


def test_heavy_traffic_is_sampled_ever_more_thinly_until_it_lasts() -> None:
    budget, left = Budget(36_000), 0
    for number in range(720):  # two hours; whole, the sample would be ten times what lasts
        size = int(1000 * budget.share)
        left += size if budget.spend(size, number * 10, 10) else 0
    assert budget.share <= 1 / 4
    assert 36_000 <= left <= 4 * 36_000


def test_light_traffic_is_sampled_whole_again() -> None:
    budget = Budget(36_000)
    budget.spend(30_000, 0, 10, lost=True)
    assert budget.share == 0.5
    for number in range(1, 4):
        budget.spend(10, number * 10, 10)
    assert budget.share == 1.0
