"""The interval checker: never a false alarm, and every excess that a log proves is found."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen import Limiter, Rule, UsageError
from limen.core.limit import Limit
from limen.testing import IntervalChecker, ManualClock, Overshoot
from limen.testing.checker.farthest import Admission, farthest

ADMISSIONS = st.lists(
    st.builds(lambda us, took, cost: Admission(us, us + took, cost), st.integers(0, 60), st.integers(0, 40),
              st.integers(1, 5)),
    min_size=1, max_size=25,
)  # fmt: skip


def heights(admissions: Sequence[Admission], weight: int, slope: int) -> dict[tuple[int, int], int]:
    """Every interval in which something certainly passed, as the definition has it."""
    intervals = {(one.invoked_us, two.completed_us) for one in admissions for two in admissions}
    costs = {
        (start, end): sum(cost for call, answer, cost in admissions if start <= call and answer <= end)
        for start, end in intervals
    }
    return {each: weight * cost - slope * (each[1] - each[0]) for each, cost in costs.items() if cost}


@given(ADMISSIONS, st.integers(1, 9), st.integers(0, 9))
def test_it_finds_the_worst_of_all_intervals(admissions: list[Admission], weight: int, slope: int) -> None:
    admissions.sort()
    found = farthest(admissions, weight, slope)
    every = heights(admissions, weight, slope)
    assert found.height == max(every.values()) == every[found.start_us, found.end_us]


@given(ADMISSIONS, st.integers(1, 9), st.integers(0, 9))
def test_answers_in_the_order_of_the_calls_make_no_difference(
    admissions: list[Admission], weight: int, slope: int
) -> None:
    calls, answers = sorted(each[0] for each in admissions), sorted(each[1] for each in admissions)
    ordered = [
        Admission(call, answer, each.cost) for call, answer, each in zip(calls, answers, admissions, strict=True)
    ]
    found = farthest(ordered, weight, slope)
    every = heights(ordered, weight, slope)
    assert found.height == max(every.values()) == every[found.start_us, found.end_us]


@given(ADMISSIONS, st.integers(1, 8), st.fractions(min_value=0, max_value=200_000, max_denominator=7))
def test_the_worst_ratio_is_that_of_the_definition(admissions: list[Admission], burst: int, rate: Fraction) -> None:
    checker = filled(Limit(burst, rate), admissions)
    allowed = {
        interval: burst + rate * (interval[1] - interval[0]) / 1_000_000 for interval in heights(admissions, 1, 0)
    }
    wanted = max(height / allowed[interval] - 1 for interval, height in heights(admissions, 1, 0).items())
    found = checker.worst_ratio()
    assert (found.ratio if found else 0) == float(max(wanted, 0))


@given(st.randoms(use_true_random=False), st.integers(1, 6), st.sampled_from(["5/second", "7/s burst 3", "1000/s"]))
def test_it_accepts_whatever_an_exact_limiter_lets_through(chance: random.Random, many: int, limit: str) -> None:
    """However long the question and the answer are under way, and whoever overtakes whom."""
    clock = ManualClock()
    checker = IntervalChecker(limit)
    with Limiter("memory://", [Rule("r", limit=limit)], clock=clock) as limiter:
        for _ in range(60):
            clock.advance(chance.choice([0, 0.000_001, 0.01, 0.2]))
            cost = chance.randrange(1, many + 1)
            if limiter.check("acme", "r", cost).allowed:
                before, after = chance.randrange(300_000), chance.randrange(300_000)
                checker.admitted("acme", cost, clock.now_us() - before, clock.now_us() + after)
    checker.check()


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window", "sliding_log"])
def test_it_accepts_what_each_algorithm_lets_through(algorithm: str) -> None:
    rule = Rule("r", limit="10/minute", algorithm=algorithm)
    clock, checker, chance = ManualClock(), IntervalChecker(rule), random.Random(algorithm)
    with Limiter("memory://", [rule], clock=clock) as limiter:
        for _ in range(5000):
            clock.advance(chance.choice([0, 0, 0, 0.1, 1, 59]))
            if limiter.check("acme", "r").allowed:
                checker.admitted("acme", 1, clock.now_us(), clock.now_us())
    checker.check()
    worst = checker.worst()
    assert worst
    assert worst.tokens > -12, "it came near to what may pass"


def test_a_window_that_starts_twice_is_found() -> None:
    checker = IntervalChecker(Rule("r", limit="10/minute", algorithm="fixed_window"))
    for us in range(21):
        checker.admitted("acme", 1, us, us)
    with pytest.raises(AssertionError, match="21 tokens"):
        checker.check()
    with pytest.raises(AssertionError, match="more than 0 tokens"):
        checker.check(bound_tokens=0)
    checker.check(bound_tokens=11)


def test_one_token_too_many_is_found_among_many_clients() -> None:
    checker = IntervalChecker("100/minute")
    for client in range(50):
        for at in range(100 + (client == 33)):
            checker.admitted(client, 1, at, at + 1)
    with pytest.raises(AssertionError, match=r"key 33: 101 tokens passed within 0\.000101 s .* 1 of 50 keys"):
        checker.check()
    checker.check(bound_tokens=1)
    checker.check(bound_ratio=Fraction(1, 100))
    with pytest.raises(AssertionError, match=r"more than 0\.9 %"):
        checker.check(bound_ratio=0.009)


def test_costs_weigh() -> None:
    checker = IntervalChecker("10/second")
    checker.admitted("acme", 7, 0, 0)
    checker.admitted("acme", 4, 50_000, 50_000)
    worst = checker.worst()
    assert worst == Overshoot("acme", 11, Fraction(21, 2), 0, 50_000)
    assert (worst.tokens, worst.ratio) == (Fraction(1, 2), 1 / 21)


def test_what_may_have_been_later_is_no_alarm() -> None:
    """The first call came back so late that it may have taken its token last."""
    checker = IntervalChecker("1/second")
    checker.admitted("acme", 1, 0, 2_000_000)
    checker.admitted("acme", 1, 900_000, 950_000)
    checker.check()
    checker.admitted("acme", 1, 951_000, 952_000)
    with pytest.raises(AssertionError, match="2 tokens"):
        checker.check()


def test_a_slow_answer_hides_nothing_about_the_others() -> None:
    checker = IntervalChecker("1/second")
    checker.admitted("acme", 1, 0, 60_000_000)
    for us in (30_000_000, 30_000_010):
        checker.admitted("acme", 1, us, us + 5)
    with pytest.raises(AssertionError, match=r"2 tokens passed within 0\.000015 s"):
        checker.check()


def test_nothing_admitted_is_nothing_over() -> None:
    checker = IntervalChecker("1/second")
    checker.admitted("acme", 0, 0, 0)
    checker.check()
    assert (checker.worst(), checker.worst_ratio(), len(checker)) == (None, None, 0)


def test_under_a_limit_of_nothing_everything_is_over() -> None:
    checker = IntervalChecker("0/minute")
    checker.admitted("acme", 1, 5, 9)
    with pytest.raises(AssertionError, match=r"\+inf %"):
        checker.check(bound_ratio=1000)


@pytest.mark.parametrize("limit", ["unlimited", "10 concurrent", "many"])
def test_a_limit_without_intervals_is_refused(limit: str) -> None:
    with pytest.raises(UsageError):
        IntervalChecker(limit)


@pytest.mark.parametrize(("cost", "invoked_us", "completed_us"), [(1, 10, 9), (-1, 0, 0)])
def test_what_cannot_be_is_refused(cost: int, invoked_us: int, completed_us: int) -> None:
    with pytest.raises(UsageError, match="cannot be"):
        IntervalChecker("1/second").admitted("acme", cost, invoked_us, completed_us)


@given(
    ADMISSIONS, ADMISSIONS, st.integers(1, 8), st.fractions(min_value=0, max_value=200_000, max_denominator=7),
    st.integers(0, 60),
)  # fmt: skip
def test_what_is_settled_is_forgotten_and_still_counts(
    early: list[Admission], late: list[Admission], burst: int, rate: Fraction, shift_us: int
) -> None:
    """Later calls may well come before the answers to some of the earlier ones."""
    limit, now_us = Limit(burst, rate), max(each.invoked_us for each in early) + 1
    late = [
        Admission(each.invoked_us + now_us + shift_us, each.completed_us + now_us + shift_us, each.cost)
        for each in late
    ]
    checker, whole = filled(limit, early), filled(limit, early + late)
    checker.settle(now_us)
    for invoked_us, completed_us, cost in late:
        checker.admitted("acme", cost, invoked_us, completed_us)
    worst, wanted = checker.worst(), whole.worst()
    assert worst
    assert wanted
    assert worst.tokens == wanted.tokens
    assert len(checker) == len(whole)
    ratio, most = checker.worst_ratio(), whole.worst_ratio()
    assert (ratio is None) == (most is None)
    assert ratio is None or most is None or ratio.ratio <= most.ratio


def test_a_long_run_needs_no_more_room_than_a_short_one() -> None:
    checker = IntervalChecker("10/second")
    for second in range(200):
        for at in range(10):
            us = second * 1_000_000 + at * 100_000
            checker.admitted("acme", 1, us, us + 1000)
        checker.settle(second * 1_000_000)
    assert len(checker) == 2000
    assert len(checker._admissions["acme"]) <= 21
    checker.check()


def filled(limit: Limit, admissions: Sequence[Admission]) -> IntervalChecker:
    checker = IntervalChecker(limit)
    for invoked_us, completed_us, cost in admissions:
        checker.admitted("acme", cost, invoked_us, completed_us)
    return checker
