"""The bucket in integers against a bucket in exact fractions, for any limit and any sequence of requests."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limen.core.limit import Limit, exact_rate
from limen.core.token_bucket import Bucket, level_of, settle

SECOND = 1_000_000
DAY = 86_400
LONGEST_FILL_S = 70 * 365 * DAY
START_US = 1_700_000_000 * SECOND

rates = st.one_of(
    st.integers(1, 10**6).map(Fraction),
    st.floats(1 / DAY, 1e6).map(exact_rate),
    st.sampled_from([1.6667, 16.666666666666668, 0.1, 1 / DAY]).map(exact_rate),
    st.builds(Fraction, st.integers(1, 10**6), st.integers(1, DAY)),
    st.sampled_from([Fraction(10, 13), Fraction(1, 3), Fraction(1, 7), Fraction(3, 7), Fraction(10**6)]),
)


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    rate = draw(rates)
    most = min(10**6, int(LONGEST_FILL_S * rate))
    return Limit(draw(st.one_of(st.integers(1, min(20, most)), st.integers(1, most))), rate)


class Step(NamedTuple):
    now_us: int
    cost: int


@st.composite
def runs(draw: st.DrawFn, back: bool = False) -> tuple[Limit, list[Step]]:
    """A limit and requests: some at once, some about a token apart, some after a long pause, some too dear."""
    limit = draw(limits())
    token_us = ceil(SECOND / limit.refill_per_sec)
    fill_us = ceil(limit.capacity * SECOND / limit.refill_per_sec)
    pause = st.one_of(st.integers(0, 2), st.integers(0, 2 * token_us), st.integers(0, 2 * fill_us))
    advance = st.one_of(pause, pause.map(lambda us: -us)) if back else pause
    cost = st.one_of(st.integers(0, min(3, limit.capacity)), st.integers(0, limit.capacity + 1))
    steps, now_us = [], START_US
    for delta, amount in draw(st.lists(st.tuples(advance, cost), min_size=1, max_size=25)):
        now_us += delta
        steps.append(Step(now_us, amount))
    return limit, steps


class Answer(NamedTuple):
    allowed: bool
    level: int
    bucket: Bucket | None


def play(limit: Limit, steps: list[Step]) -> Iterator[tuple[Step, Answer]]:
    """What a store does: look, and take when the tokens are there; a clock that stepped back is kept as well."""
    bucket: Bucket | None = None
    for step in steps:
        level = level_of(bucket, limit, step.now_us)
        left = level - step.cost * limit.token_ticks
        if left >= 0 and step.cost:
            bucket = settle(left, limit, step.now_us)
        elif bucket is not None and step.now_us < bucket.anchor_us:
            bucket = settle(level, limit, step.now_us)
        yield step, Answer(left >= 0, level, bucket)


def rate_of(limit: Limit) -> Fraction:
    """The tokens a second that the ticks of a limit really stand for."""
    return Fraction(SECOND * limit.ticks_per_us, limit.token_ticks)


class Model:
    """A bucket as the definition has it: a level that grows at a rate and stops at the capacity."""

    def __init__(self, capacity: int, rate: Fraction) -> None:
        self.capacity = capacity
        self.rate = rate
        self.level = Fraction(capacity)
        self.at_us = START_US

    def take(self, now_us: int, cost: int) -> tuple[bool, int, int | None, int]:
        """(allowed, whole tokens left, µs to wait, µs until full)."""
        grown = self.rate * (now_us - self.at_us) / SECOND
        self.level, self.at_us = min(Fraction(self.capacity), self.level + grown), now_us
        wait: int | None = 0
        if cost <= self.level:
            self.level -= cost
        elif cost > self.capacity:
            wait = None
        else:
            wait = ceil((cost - self.level) / self.rate * SECOND)
        return wait == 0, int(self.level), wait, ceil((self.capacity - self.level) / self.rate * SECOND)


@given(runs())
def test_every_answer_equals_that_of_the_exact_model(run: tuple[Limit, list[Step]]) -> None:
    limit, steps = run
    model = Model(limit.capacity, rate_of(limit))
    for step, answer in play(limit, steps):
        left = answer.level - step.cost * limit.token_ticks * answer.allowed
        wait = limit.retry_after_us(answer.level, step.cost)
        found = (answer.allowed, left // limit.token_ticks, wait, limit.reset_after_us(left))
        assert found == model.take(step.now_us, step.cost)


@given(runs())
def test_no_interval_admits_more_than_the_capacity_and_what_grew(run: tuple[Limit, list[Step]]) -> None:
    limit, steps = run
    admitted = [step for step, answer in play(limit, steps) if answer.allowed]
    for first in range(len(admitted)):
        total = 0
        for step in admitted[first:]:
            total += step.cost
            seconds = Fraction(step.now_us - admitted[first].now_us, SECOND)
            assert total <= limit.capacity + limit.refill_per_sec * seconds


@given(runs(), st.data())
def test_a_refusal_holds_until_the_stated_instant_and_ends_exactly_then(
    run: tuple[Limit, list[Step]], data: st.DataObject
) -> None:
    limit, steps = run
    for step, answer in play(limit, steps):
        if answer.allowed:
            continue
        wait = limit.retry_after_us(answer.level, step.cost)
        needed = step.cost * limit.token_ticks
        if wait is None:
            assert step.cost > limit.capacity
            continue
        earlier = data.draw(st.lists(st.integers(0, wait - 1), max_size=5))
        for after_us in [*range(max(0, wait - 20), wait), *earlier]:
            assert level_of(answer.bucket, limit, step.now_us + after_us) < needed
        assert level_of(answer.bucket, limit, step.now_us + wait) >= needed


@given(runs())
def test_the_stated_reset_is_the_first_instant_at_which_the_bucket_is_exactly_full(
    run: tuple[Limit, list[Step]],
) -> None:
    limit, steps = run
    for step, answer in play(limit, steps):
        reset = limit.reset_after_us(level_of(answer.bucket, limit, step.now_us))
        assert reset is not None
        full_at = step.now_us + reset
        assert level_of(answer.bucket, limit, full_at) == limit.full_ticks == limit.capacity * limit.token_ticks
        assert not reset or level_of(answer.bucket, limit, full_at - 1) < limit.full_ticks


@given(limits(), st.integers(1, 50), st.integers(0, 10**9), st.data())
def test_one_request_for_n_tokens_leaves_what_n_requests_for_one_leave(
    limit: Limit, n: int, later_us: int, data: st.DataObject
) -> None:
    n = min(n, limit.capacity)
    spent = data.draw(st.integers(0, limit.capacity))
    bucket = settle(limit.full_ticks - spent * limit.token_ticks, limit, START_US)
    level = level_of(bucket, limit, START_US + later_us)
    assume(level >= n * limit.token_ticks)
    at_once = settle(level - n * limit.token_ticks, limit, START_US + later_us)
    for _ in range(n):
        bucket = settle(level_of(bucket, limit, START_US + later_us) - limit.token_ticks, limit, START_US + later_us)
    assert bucket == at_once


@given(limits(), st.data())
def test_a_settled_bucket_holds_the_very_level(limit: Limit, data: st.DataObject) -> None:
    level = data.draw(st.integers(0, limit.full_ticks))
    bucket = settle(level, limit, START_US)
    assert level_of(bucket, limit, START_US) == level
    assert 0 <= bucket.anchor_part < limit.ticks_per_us
    assert 0 <= bucket.whole <= limit.capacity
    assert bucket.anchor_us <= START_US


@given(limits(), limits(), st.data())
def test_whole_tokens_survive_a_change_of_the_limit_up_to_the_new_capacity(
    old: Limit, new: Limit, data: st.DataObject
) -> None:
    bucket = settle(data.draw(st.integers(0, old.full_ticks)), old, START_US)
    level = level_of(bucket, new, START_US)
    kept = min(bucket.whole, new.capacity)
    assert kept * new.token_ticks <= level <= new.full_ticks
    waited = Fraction(START_US - bucket.anchor_us, SECOND)
    assert Fraction(level, new.token_ticks) <= bucket.whole + rate_of(new) * waited


@given(limits(), limits(), st.data())
def test_a_change_of_the_limit_and_back_gives_nothing_away(old: Limit, new: Limit, data: st.DataObject) -> None:
    tokens = data.draw(st.integers(0, old.capacity))
    bucket = settle(tokens * old.token_ticks, old, START_US)
    between = settle(level_of(bucket, new, START_US), new, START_US)
    assert between.whole == min(tokens, new.capacity)
    assert level_of(between, old, START_US) == min(tokens, new.capacity) * old.token_ticks


@given(runs(back=True))
def test_a_clock_that_steps_back_gives_nothing_away(run: tuple[Limit, list[Step]]) -> None:
    limit, steps = run
    admitted, forward, before = 0, 0, steps[0].now_us
    for step, answer in play(limit, steps):
        assert 0 <= answer.level <= limit.full_ticks
        forward += max(0, step.now_us - before)
        before = step.now_us
        admitted += step.cost * answer.allowed
        assert admitted <= limit.capacity + limit.refill_per_sec * Fraction(forward, SECOND)


@given(limits(), st.integers(1, 10 * 365 * DAY * SECOND), st.data())
def test_a_clock_that_steps_back_locks_nobody_out(limit: Limit, back_us: int, data: st.DataObject) -> None:
    level = data.draw(st.integers(0, limit.full_ticks))
    cost = data.draw(st.integers(1, limit.capacity))
    now_us = START_US - back_us
    stepped = level_of(settle(level, limit, START_US), limit, now_us)
    assert level - limit.token_ticks < stepped <= level
    wait = limit.retry_after_us(stepped, cost)
    assert wait is not None
    assert wait <= ceil(cost * SECOND / rate_of(limit))
    assert level_of(settle(stepped, limit, now_us), limit, now_us + wait) >= cost * limit.token_ticks


def test_a_bucket_that_nobody_knows_is_full() -> None:
    limit = Limit(7, Fraction(10, 13))
    assert level_of(None, limit, START_US) == limit.full_ticks


@pytest.mark.parametrize("capacity", [1, 5, 10**6])
def test_a_quota_that_never_refills_is_spent_once(capacity: int) -> None:
    limit = Limit(capacity, Fraction(0))
    bucket = settle(0, limit, START_US)
    later = level_of(bucket, limit, START_US + 10**15)
    assert later == 0
    assert limit.retry_after_us(later, 1) is None
    assert limit.reset_after_us(later) is None
