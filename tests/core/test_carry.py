"""What is left when a limit changes, as numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.core.carry import (
    AS_IS,
    CARRY_OVERS,
    CarryOver,
    carried_left,
    carried_level,
    carried_state,
    lasts_us,
    scaled,
    told,
)
from limen.core.fixed_window import FixedWindow, Window
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import Counts, SlidingWindow

US = 1_000_000
numbers = st.integers(0, 10**9)
hows = st.sampled_from(CARRY_OVERS)
rates = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(10, 13), Fraction(7), Fraction(997)])
limits = st.builds(Limit, st.integers(1, 10**6), rates)


@given(numbers, numbers, st.integers(1, 10**9))
def test_scaling_is_exact_where_a_double_can_be_and_never_off_by_more_than_one(amount: int, by: int, of: int) -> None:
    exact = Fraction(amount * by, of)
    assert abs(scaled(amount, by, of) - exact) <= 1
    if amount * by < 2**53:
        assert scaled(amount, by, of) == int(exact)


def test_nothing_of_nothing_is_everything() -> None:
    assert scaled(0, 7, 0) == 7


@given(limits, limits, hows, st.data())
def test_a_bucket_holds_what_the_four_ways_promise(
    before: Limit, after: Limit, how: CarryOver, data: st.DataObject
) -> None:
    level = data.draw(st.integers(0, before.full_ticks))
    found = carried_level(level, before, after, how)
    old, new = Fraction(level, before.token_ticks), Fraction(after.capacity)
    promised = {
        "as-is": min(old, new),
        "proportional": old * new / before.capacity,
        "additive": min(old, new) + max(Fraction(0), new - before.capacity),
        "reset": new,
    }[how]
    assert 0 <= found <= after.full_ticks
    assert abs(Fraction(found, after.token_ticks) - promised) <= Fraction(2, after.token_ticks)


@given(st.integers(0, 10**6), st.integers(0, 10**6), hows, st.data())
def test_what_is_left_of_a_window_lies_between_nothing_and_everything(
    before: int, after: int, how: CarryOver, data: st.DataObject
) -> None:
    left = data.draw(st.integers(0, before))
    assert 0 <= carried_left(left, before, after, how) <= after
    assert carried_left(before, before, after, how) == after or how == AS_IS


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ("as-is", (2, 3, 4, 5, 6, 7, 8)),
        ("proportional", (3, 4, 6, 7, 8)),
        ("additive", (4, 6, 8)),
        ("reset", ()),
    ],
)
def test_a_log_keeps_moments_spread_over_those_that_there_were_and_the_last(
    how: CarryOver, kept: tuple[int, ...]
) -> None:
    before, after = SlidingLog(10, 100 * US), SlidingLog(6, 100 * US)
    spent = (2, 3, 4, 5, 6, 7, 8)
    found = carried_state(spent, before, after, how, now_us=9)
    assert found == kept


def test_a_log_that_is_raised_in_proportion_is_as_full_as_before() -> None:
    found = carried_state((2, 8), SlidingLog(4, 1000), SlidingLog(8, 1000), "proportional", now_us=9)
    assert found == (2, 2, 8, 8)


def test_a_window_ends_when_it_would_have_ended() -> None:
    before, after = FixedWindow(10, 60 * US), FixedWindow(100, 60 * US)
    assert carried_state(Window(4, 50 * US), before, after, "proportional", 9 * US) == Window(40, 50 * US)
    assert carried_state(Window(4, 50 * US), before, after, "reset", 9 * US) == Window(0, 50 * US)


def test_both_counts_of_a_sliding_window_are_converted_and_rounded_up() -> None:
    before, after = SlidingWindow(10, 60 * US), SlidingWindow(3, 60 * US)
    assert carried_state(Counts(4, 0, 10), before, after, "proportional", US) == Counts(2, 0, 3)
    assert carried_state(Counts(4, 0, 10), before, after, "additive", US) == Counts(0, 0, 7)


def test_a_late_question_is_told_no_more_than_it_knows_of() -> None:
    new, old = Limit(100, Fraction(1)), Limit(10, Fraction(3))
    assert told(new.full_ticks, new, old) == old.full_ticks
    assert told(7 * new.token_ticks, new, old) == 7 * old.token_ticks
    assert told((50, 9), FixedWindow(100, 60 * US), FixedWindow(10, 60 * US)) == (10, 9)


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 120 * US), st.integers(1, 50), st.integers(1, 50))
def test_waits_of_a_late_question_make_sense(
    current: int, previous: int, elapsed_us: int, capacity: int, cost: int
) -> None:
    """RU-11: no division by nothing, no negative wait."""
    new, old = SlidingWindow(100, 120 * US), SlidingWindow(capacity, 60 * US)
    seen = told(new.look(Counts(current, 0, previous), elapsed_us, 0), new, old)
    wait = old.retry_after_us(seen, cost)
    assert (wait is None) == (cost > capacity)
    assert wait is None or (wait == 0) == old.allows(seen, cost)
    assert old.reset_after_us(seen) >= 0


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        (Limit(60, Fraction(1)), 60),
        (FixedWindow(5, 30 * US), 60),
        (SlidingWindow(5, 30 * US), 60),
        (Limit(5, Fraction(0)), 30 * 86_400),
    ],
)
def test_a_bucket_says_nothing_any_more_after_its_slowest_time(limit: Limit, seconds: int) -> None:
    assert lasts_us(limit) == seconds * US
