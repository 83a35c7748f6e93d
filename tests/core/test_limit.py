"""The numbers of a limit: exact where they can be, a hair tighter where they cannot, never looser."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limen.core.limit import MAX_CAPACITY, MAX_REFILL_PER_SEC, Limit, exact_rate
from limen.errors import UsageError

SECOND = 1_000_000
LONGEST_FILL_S = 70 * 365 * 86_400

rates = st.one_of(
    st.builds(Fraction, st.integers(1, 10**12), st.integers(10**6, 10**9)),
    st.builds(Fraction, st.integers(1, MAX_REFILL_PER_SEC), st.integers(1, 10**6)),
    st.floats(1e-9, MAX_REFILL_PER_SEC).map(Fraction),
)


@st.composite
def numbers(draw: st.DrawFn, most: int = MAX_CAPACITY) -> tuple[int, Fraction]:
    """A capacity and a rate at which it fills within 70 years."""
    rate = draw(rates)
    return draw(st.integers(1, min(most, int(LONGEST_FILL_S * rate)))), rate


def rate_of(limit: Limit) -> Fraction:
    """The tokens a second that the ticks of a limit really stand for."""
    return Fraction(SECOND * limit.ticks_per_us, limit.token_ticks)


@given(numbers())
def test_ticks_are_never_looser_than_the_rate_and_within_a_millionth_of_it(pair: tuple[int, Fraction]) -> None:
    capacity, rate = pair
    limit = Limit(capacity, rate)
    assert rate * (1 - Fraction(1, 10**6)) <= rate_of(limit) <= rate


@given(numbers())
def test_a_full_bucket_and_one_token_more_are_exact_in_a_double(pair: tuple[int, Fraction]) -> None:
    capacity, rate = pair
    limit = Limit(capacity, rate)
    assert limit.full_ticks + limit.token_ticks <= 2**52
    assert limit.ticks_per_us <= 10**6
    assert limit.full_ticks == capacity * limit.token_ticks
    assert limit.ticks_per_ms == 1000 * limit.ticks_per_us


@given(st.integers(1, 10**4), st.integers(1, 10**4), st.sampled_from([1, 7, 13, 30, 60, 3600, 86_400]))
def test_rates_that_operators_write_are_exact(capacity: int, tokens: int, seconds: int) -> None:
    assert rate_of(Limit(capacity, Fraction(tokens, seconds))) == Fraction(tokens, seconds)


@given(st.integers(1, 999), st.integers(1, 999))
def test_a_float_stands_for_the_simple_fraction_that_was_meant(a: int, b: int) -> None:
    assert exact_rate(a / b) == Fraction(a, b)


@pytest.mark.parametrize("seconds", [1, 7, 60, 3600, 86_400, 30 * 86_400, 365 * 86_400, 10**9])
def test_once_in_a_while_is_exactly_that(seconds: int) -> None:
    assert exact_rate(1 / seconds) == Fraction(1, seconds)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (1.6667, Fraction(16667, 10000)),
        (0.1, Fraction(1, 10)),
        (16.666666666666668, Fraction(50, 3)),
        (0, 0),
        (Fraction(10, 13), Fraction(10, 13)),
    ],
)
def test_exact_rate(written: float, meant: Fraction) -> None:
    assert exact_rate(written) == meant


@given(st.floats(0, 1e6, allow_nan=False))
def test_every_float_has_a_rate(tokens_per_sec: float) -> None:
    rate = exact_rate(tokens_per_sec)
    assert (rate == 0) == (tokens_per_sec == 0)
    assert abs(rate - Fraction(tokens_per_sec)) <= Fraction(tokens_per_sec) / 10**6


@given(numbers(10**6), st.integers(1, 500), st.fractions(0, 1, max_denominator=1000))
def test_shares_together_are_at_most_the_limit(pair: tuple[int, Fraction], count: int, start: Fraction) -> None:
    capacity, rate = pair
    assume(capacity * count / rate <= LONGEST_FILL_S)
    share = Limit(capacity, rate).share(count, start)
    begins_with = Fraction(share.start_ticks, share.token_ticks)
    assert count * begins_with <= capacity * start
    assert count * rate_of(share) <= rate
    assert share.capacity * count <= capacity or share.capacity == 1


@given(st.integers(2, 10**4), st.integers(1, 50), st.data())
def test_a_share_has_room_for_one_request_but_does_not_begin_with_it(
    capacity: int, count: int, data: st.DataObject
) -> None:
    cost = data.draw(st.integers(1, capacity))
    share = Limit(capacity, Fraction(1)).share(count, Fraction(1, 10), cost)
    assert share.capacity == max(cost, capacity // count)
    assert count * Fraction(share.start_ticks, share.token_ticks) <= Fraction(capacity, 10)


@pytest.mark.parametrize(
    ("limit", "window"),
    [
        (Limit(100, Fraction(100, 60)), 60),
        (Limit(10, Fraction(3)), 4),
        (Limit(1, Fraction(1000)), 1),
        (Limit(5, Fraction(0)), None),
        (Limit(0, Fraction(0)), None),
    ],
)
def test_the_window_is_the_time_in_which_an_empty_bucket_fills(limit: Limit, window: int | None) -> None:
    assert limit.window_s == window


@pytest.mark.parametrize(
    ("capacity", "rate", "message"),
    [
        (-1, 1, "capacity must be between 0 and 1000000000, not -1"),
        (10**9 + 1, 1, "capacity must be between"),
        (1, -1, "refill_per_sec must be between 0 and 1000000, not -1"),
        (1, 10**6 + 1, "refill_per_sec must be between"),
        (1000, Fraction(1, 10**9), "more than 70 years to fill; raise refill_per_sec or lower capacity"),
    ],
)
def test_numbers_out_of_range_are_refused_with_advice(capacity: int, rate: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Limit(capacity, Fraction(rate))


def test_limits_are_equal_when_their_numbers_are() -> None:
    assert Limit(5, Fraction(1, 2)) == Limit(5, Fraction(2, 4))
    assert Limit(5, Fraction(1, 2)) != Limit(5, Fraction(1, 3))
    assert len({Limit(5, Fraction(1)), Limit(5, Fraction(1))}) == 1
