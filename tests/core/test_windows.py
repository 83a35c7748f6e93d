"""What each window algorithm promises, for any limit and any sequence of requests: against models in plain Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limen.core.algorithm import AnyLimit
from limen.core.calendar_window import CALENDAR_UNITS, CalendarUnit, CalendarWindow
from limen.core.fixed_window import FixedWindow, Window
from limen.core.limit import Limit
from limen.core.sliding_log import MAX_LOGGED, SlidingLog
from limen.core.sliding_window import Counts, SlidingWindow
from limen.errors import UsageError

US = 1_000_000
START_US = 1_750_000_000 * US
BERLIN = ZoneInfo("Europe/Berlin")

lengths = st.one_of(st.sampled_from([1000, US, 60 * US]), st.integers(1000, 86_400 * US))


def limits(most: int = 20) -> st.SearchStrategy[Any]:
    """Every window algorithm that counts on a clock of its own."""
    capacities = st.integers(1, most)
    return st.one_of(
        st.builds(FixedWindow, capacities, lengths),
        st.builds(SlidingWindow, capacities, lengths),
        st.builds(SlidingLog, st.integers(1, min(most, MAX_LOGGED)), lengths),
    )


class Answer(NamedTuple):
    now_us: int
    cost: int
    allowed: bool
    seen: Any
    state: Any
    """Before."""


def told(limit: AnyLimit, steps: Sequence[tuple[int, int]], state: Any = None) -> Iterator[Answer]:
    """What happens to one client."""
    for now_us, cost in steps:
        seen = limit.look(state, now_us, cost)
        allowed = limit.allows(seen, cost)
        yield Answer(now_us, cost, allowed, seen, state)
        if allowed and cost:
            state = limit.spend(state, now_us, cost)
        elif state is not None and limit.stepped_back(state, now_us):
            state = limit.spend(state, now_us, 0)


@st.composite
def stories(draw: st.DrawFn, back: bool = False, most: int = 20) -> tuple[Any, list[tuple[int, int]]]:
    """A limit, and requests: some at once, some a part of a window apart, some after a rest."""
    limit = draw(limits(most))
    pause = st.one_of(st.integers(0, 3), st.integers(0, limit.window_us // 3), st.integers(0, 3 * limit.window_us))
    if back:
        pause = st.one_of(pause, pause.map(lambda us: -us))
    now_us, steps = START_US, []
    for step in draw(st.lists(pause, min_size=1, max_size=40)):
        now_us += step
        steps.append((now_us, draw(st.integers(0, min(3, limit.capacity + 1)))))
    return limit, steps


@given(stories())
def test_the_wait_is_exact(story: tuple[Any, list[tuple[int, int]]]) -> None:
    limit, steps = story
    for answer in told(limit, steps):
        wait_us = limit.retry_after_us(answer.seen, answer.cost)
        assert (wait_us == 0) == (answer.allowed and answer.cost <= limit.capacity)
        if not wait_us:
            assert wait_us == 0 or answer.cost > limit.capacity
            continue
        for after_us in {1, wait_us // 2, wait_us - 1} - {0, wait_us}:
            early = limit.look(answer.state, answer.now_us + after_us, answer.cost)
            assert not limit.allows(early, answer.cost)
        then = limit.look(answer.state, answer.now_us + wait_us, answer.cost)
        assert limit.allows(then, answer.cost)


@given(stories())
def test_everything_is_there_again_after_the_reset_and_not_before(story: tuple[Any, list[tuple[int, int]]]) -> None:
    limit, steps = story
    for answer in told(limit, steps):
        reset_us = limit.reset_after_us(answer.seen)
        full = limit.look(answer.state, answer.now_us + reset_us, 0)
        assert limit.remaining(full) == limit.capacity
        assert limit.reset_after_us(full) == 0
        if reset_us:
            before = limit.look(answer.state, answer.now_us + reset_us - 1, 0)
            assert limit.reset_after_us(before) > 0


@given(stories())
def test_what_will_be_seen_is_what_is_seen(story: tuple[Any, list[tuple[int, int]]]) -> None:
    limit, steps = story
    for answer in told(limit, steps):
        if answer.allowed and answer.cost:
            state = limit.spend(answer.state, answer.now_us, answer.cost)
            after = limit.after(answer.seen, answer.cost)
            now = limit.look(state, answer.now_us, 0)
            assert limit.remaining(after) == limit.remaining(now)
            assert limit.reset_after_us(after) == limit.reset_after_us(now)


@given(stories(), st.integers(0, 3 * 10**6), st.integers(1, 3))
def test_what_a_refusal_says_later_is_never_too_little(
    story: tuple[Any, list[tuple[int, int]]], us: int, cost: int
) -> None:
    limit, steps = story
    for answer in told(limit, steps):
        if answer.allowed or answer.cost > limit.capacity:
            continue
        known = limit.later(answer.seen, us, cost, answer.cost)
        truth = limit.look(answer.state, answer.now_us + us, cost)
        if known is not None:
            assert not limit.allows(truth, cost)
            assert cost > limit.capacity or limit.retry_after_us(known, cost) <= limit.retry_after_us(truth, cost)


def most_in_a_window(answers: Sequence[Answer], window_us: int) -> int:
    """The most tokens that were spent in any interval shorter than a window."""
    spent = [(answer.now_us, answer.cost) for answer in answers if answer.allowed]
    return max(
        (sum(cost for moment, cost in spent if begin <= moment < begin + window_us) for begin, _ in spent), default=0
    )


@given(stories())
def test_no_algorithm_lets_more_through_than_it_says(story: tuple[Any, list[tuple[int, int]]]) -> None:
    limit, steps = story
    most = most_in_a_window(list(told(limit, steps)), limit.window_us)
    assert most <= limit.capacity * (1 if isinstance(limit, SlidingLog) else 2)


@given(stories())
def test_the_log_is_the_exact_answer(story: tuple[Any, list[tuple[int, int]]]) -> None:
    limit, steps = story
    assume(isinstance(limit, SlidingLog))
    spent: list[int] = []
    for answer in told(limit, steps):
        still = [moment for moment in spent if moment > answer.now_us - limit.window_us]
        assert answer.allowed == (answer.cost <= limit.capacity - len(still))
        assert limit.remaining(answer.seen) == limit.capacity - len(still)
        if answer.allowed:
            spent += [answer.now_us] * answer.cost


@given(stories(most=10**6))
def test_the_counter_weighs_the_last_window_by_what_is_left_of_it(story: tuple[Any, list[tuple[int, int]]]) -> None:
    limit, steps = story
    assume(isinstance(limit, SlidingWindow))
    for answer in told(limit, steps):
        left, current, previous, elapsed_us = answer.seen
        exact = limit.capacity - current - previous * (1 - Fraction(elapsed_us, limit.window_us))
        assert exact - 1 - Fraction(previous, limit.units) <= left <= exact or left == 0 > exact - 1


@given(stories(back=True))
def test_a_clock_that_steps_back_locks_nobody_out_and_gives_at_most_one_limit_more(
    story: tuple[Any, list[tuple[int, int]]],
) -> None:
    limit, steps = story
    for answer in told(limit, steps):
        wait_us = limit.retry_after_us(answer.seen, answer.cost)
        windows = 1 if isinstance(limit, FixedWindow | SlidingLog) else 2
        assert wait_us is None or 0 <= wait_us <= windows * limit.window_us
        assert 0 <= limit.remaining(answer.seen) <= limit.capacity


@given(stories(), st.integers(1, 30))
def test_a_changed_limit_keeps_what_was_spent(story: tuple[Any, list[tuple[int, int]]], capacity: int) -> None:
    limit, steps = story
    state, now_us = None, START_US
    for answer in told(limit, steps):
        state, now_us = answer.state, answer.now_us
    assume(state is not None)
    changed = type(limit)(capacity, limit.window_us)
    before, after = limit.look(state, now_us, 0), changed.look(state, now_us, 0)
    spent = limit.capacity - limit.remaining(before)
    rounding = 1 if isinstance(limit, SlidingWindow) else 0
    assert abs(changed.remaining(after) - max(0, capacity - spent)) <= rounding


@given(stories(), st.integers(1, 8))
def test_the_share_of_a_gateway_is_a_token_bucket_of_that_part(
    story: tuple[Any, list[tuple[int, int]]], gateways: int
) -> None:
    limit, _ = story
    share = limit.share(gateways, Fraction(1, 10))
    assert isinstance(share, Limit)
    assert share.capacity == max(1, limit.capacity // gateways)
    assert share.refill_per_sec == min(Fraction(limit.capacity * US, limit.window_us), 10**6) / gateways


def test_a_window_begins_with_the_first_request_and_ends_once() -> None:
    limit = FixedWindow(2, 60 * US)
    rows = [
        (0, True, 1, 0, 60),
        (10, True, 0, 0, 50),
        (20, False, 0, 40, 40),
        (59, False, 0, 1, 1),
        (60, True, 1, 0, 60),
    ]
    found = []
    for answer in told(limit, [(second * US, 1) for second, *_ in rows]):
        after = limit.after(answer.seen, 1) if answer.allowed else answer.seen
        wait, reset = limit.retry_after_us(answer.seen, 1), limit.reset_after_us(after)
        found.append((answer.now_us // US, answer.allowed, limit.remaining(after), wait // US, reset // US))
    assert found == rows


def test_the_counter_as_it_is_usually_explained() -> None:
    """40 in the last minute, 15 s into this one: three quarters of them count, so of 50 there are 20 left."""
    limit = SlidingWindow(50, 60 * US)
    assert limit.look(Counts(40, 0, 0), 75 * US, 1)[0] == 20
    assert limit.look(Counts(40, 0, 0), 119 * US + 999_999, 1)[0] == 49
    assert limit.look(Counts(40, 0, 0), 120 * US, 1)[0] == 50


@pytest.mark.parametrize("make", [FixedWindow, SlidingWindow, SlidingLog])
@pytest.mark.parametrize(("capacity", "window_us"), [(-1, US), (10**9 + 1, US), (5, 999), (5, 71 * 366 * 86_400 * US)])
def test_numbers_out_of_range_are_refused(make: Any, capacity: int, window_us: int) -> None:
    with pytest.raises(UsageError):
        make(capacity, window_us)


def moment(text: str, zone: Any = UTC) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()) * US


@pytest.mark.parametrize(
    ("unit", "zone", "now", "start", "end"),
    [
        ("month", UTC, "2025-06-15T12:00", "2025-06-01T00:00", "2025-07-01T00:00"),
        ("month", BERLIN, "2025-12-31T23:59:59", "2025-12-01T00:00", "2026-01-01T00:00"),
        ("month", BERLIN, "2024-02-29T00:00", "2024-02-01T00:00", "2024-03-01T00:00"),
        ("month", BERLIN, "2025-03-01T00:00", "2025-03-01T00:00", "2025-04-01T00:00"),
        ("day", BERLIN, "2025-03-30T12:00", "2025-03-30T00:00", "2025-03-31T00:00"),
        ("day", BERLIN, "2025-10-26T12:00", "2025-10-26T00:00", "2025-10-27T00:00"),
        ("week", BERLIN, "2025-06-15T23:59", "2025-06-09T00:00", "2025-06-16T00:00"),
        ("year", BERLIN, "2025-06-15T12:00", "2025-01-01T00:00", "2026-01-01T00:00"),
        ("hour", ZoneInfo("Asia/Kolkata"), "2025-06-15T12:10", "2025-06-15T12:00", "2025-06-15T13:00"),
        ("minute", UTC, "2025-06-15T12:10:30", "2025-06-15T12:10", "2025-06-15T12:11"),
    ],
)
def test_windows_of_a_calendar(unit: CalendarUnit, zone: Any, now: str, start: str, end: str) -> None:
    bounds = CalendarWindow.of(5, unit, zone).bounds(moment(now, zone))
    assert (bounds.start_us, bounds.end_us) == (moment(start, zone), moment(end, zone))


def test_a_day_has_23_and_25_hours_when_the_clocks_change() -> None:
    limit = CalendarWindow.of(5, "day", BERLIN)
    lengths_h = []
    for day in ("2025-03-30", "2025-06-15", "2025-10-26"):
        bounds = limit.bounds(moment(f"{day}T05:00", BERLIN))
        lengths_h.append((bounds.end_us - bounds.start_us) // (3600 * US))
    assert lengths_h == [23, 24, 25]


units = st.sampled_from(list(CALENDAR_UNITS))
zones = st.sampled_from(
    [UTC, BERLIN, ZoneInfo("America/Sao_Paulo"), ZoneInfo("Asia/Kathmandu"), ZoneInfo("Pacific/Apia")]
)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(
    lambda naive: (naive - datetime(1970, 1, 1)) // timedelta(microseconds=1)
)


@given(units, zones, moments)
def test_windows_of_a_calendar_follow_each_other_without_a_gap(unit: CalendarUnit, zone: Any, now_us: int) -> None:
    limit = CalendarWindow.of(5, unit, zone)
    bounds = limit.bounds(now_us)
    assert bounds.start_us <= now_us < bounds.end_us < bounds.next_end_us
    fresh = CalendarWindow.of(5, unit, zone)
    following = fresh.bounds(bounds.end_us)
    assert (following.start_us, following.end_us) == (bounds.end_us, bounds.next_end_us)
    assert fresh.bounds(bounds.end_us - 1) == bounds


def test_a_limit_of_a_month_comes_back_on_the_first() -> None:
    limit = CalendarWindow.of(2, "month", BERLIN)
    last = moment("2025-06-30T23:59:59", BERLIN)
    steps = [(last - 86_400 * US, 2), (last, 1), (last + US, 1)]
    answers = list(told(limit, steps))
    assert [answer.allowed for answer in answers] == [True, False, True]
    assert limit.retry_after_us(answers[1].seen, 1) == US


def test_a_zone_that_changes_keeps_what_was_spent() -> None:
    now_us = moment("2025-06-15T12:00")
    state = CalendarWindow.of(5, "month").spend(None, now_us, 4)
    assert CalendarWindow.of(5, "month", BERLIN).look(state, now_us, 1)[0] == 1
    assert isinstance(state, Window)
