"""Who is told to wait, and for how long."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.core.limit import Limit
from limen.core.pacing import take_turn
from limen.errors import UsageError

US = 1_000_000


def waits(limit: Limit, calls: list[tuple[int, int]]) -> list[int]:
    """Waits in microseconds of calls at moments, each of a cost."""
    arrival, found = None, []
    for now_us, cost in calls:
        turn = take_turn(arrival, limit, now_us, cost)
        assert turn is not None
        arrival = turn.arrival
        found.append(turn.wait_us)
    return found


def test_a_burst_goes_at_once_and_the_rest_one_by_one() -> None:
    assert waits(Limit(3, Fraction(10)), [(0, 1)] * 6) == [0, 0, 0, 100_000, 200_000, 300_000]


def test_PR_25_no_call_waits_while_there_are_tokens() -> None:
    assert waits(Limit(30, Fraction(30)), [(0, 1)] * 3) == [0, 0, 0]


def test_who_rested_has_a_burst_again() -> None:
    assert waits(Limit(2, Fraction(1)), [(0, 2), (0, 1), (10 * US, 2), (10 * US, 1)]) == [0, US, 0, US]


def test_a_cost_above_the_burst_waits_for_it() -> None:
    assert waits(Limit(2, Fraction(1)), [(0, 5)]) == [3 * US]


def test_a_wait_that_is_too_long_promises_nothing() -> None:
    limit = Limit(1, Fraction(1))
    first = take_turn(None, limit, 0)
    assert first is not None
    assert take_turn(first.arrival, limit, 0, longest_us=US - 1) is None
    again = take_turn(first.arrival, limit, 0, longest_us=US)
    assert again is not None
    assert again.wait_us == US


def test_what_never_refills_has_no_pace() -> None:
    with pytest.raises(UsageError, match="pacing needs a rate"):
        take_turn(None, Limit(5, Fraction(0)), 0)


@given(
    st.integers(1, 20),
    st.builds(Fraction, st.integers(1, 1000), st.integers(1, 1000)),
    st.lists(st.tuples(st.integers(0, 3 * US), st.integers(1, 4)), min_size=1, max_size=30),
)
def test_those_who_wait_as_told_keep_the_limit(capacity: int, rate: Fraction, calls: list[tuple[int, int]]) -> None:
    """What leaves in any interval of t seconds is at most capacity + rate · t."""
    limit = Limit(capacity, rate)
    now_us, moments = 0, []
    for pause_us, cost in calls:
        now_us += pause_us
        moments.append((now_us, min(cost, capacity)))
    leaving = [(now + wait, cost) for (now, cost), wait in zip(moments, waits(limit, moments), strict=True)]
    for index, (begin, _) in enumerate(leaving):
        spent = 0
        for end, cost in leaving[index:]:
            spent += cost
            assert spent <= capacity + rate * (end + 1 - begin) / US  # each wait is rounded up to a microsecond


@given(st.integers(1, 5), st.integers(1, 10**6))
def test_waits_are_rounded_up(capacity: int, rate: int) -> None:
    limit = Limit(capacity, Fraction(rate, 7))
    *_, last = waits(limit, [(0, 1)] * (capacity + 1))
    assert last == ceil(Fraction(7 * US, rate))
