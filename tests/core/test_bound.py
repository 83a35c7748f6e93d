"""The published bound holds in models of what can happen, and is reached by some of it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from limen.core.algorithm import AnyLimit
from limen.core.bound import MECHANISMS, Circumstances, bound_of_limit
from limen.core.calendar_window import CalendarWindow
from limen.core.concurrency import SlotLimit
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.share import START, owed, used_after
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.core.token_bucket import settle

SECOND = 1_000_000
Admission = tuple[int, int]
"""Seconds, tokens."""


def overshoot(admitted: list[Admission], capacity: int, per_s: Fraction) -> Fraction:
    """Tokens beyond the envelope, in the worst interval of all."""
    worst = Fraction(0)
    for first, (began, _) in enumerate(admitted):
        total = 0
        for at, tokens in admitted[first:]:
            total += tokens
            worst = max(worst, total - capacity - per_s * (at - began))
    return worst


class Counter:
    """A bucket somewhere, of which a client takes whatever it can get."""

    def __init__(self, limit: AnyLimit) -> None:
        self.limit = limit
        self.state: Any = None

    def level(self, at: int, cost: int = 0) -> Any:
        return self.limit.look(self.state, at * SECOND, cost)

    def begin(self, at: int) -> None:
        """Begin to fill, which a share does when it is first asked."""
        if self.state is None:
            self.state = self.limit.spend(None, at * SECOND, 0)

    def take_all(self, at: int, cost: int) -> int:
        """The tokens that requests of that cost get."""
        taken = 0
        while self.limit.allows(self.level(at, cost), cost):
            self.state = self.limit.spend(self.state, at * SECOND, cost)
            taken += cost
        return taken

    def charge(self, at: int, tokens: int) -> None:
        """Take so much, or all that is there."""
        assert isinstance(self.limit, Limit)
        level = max(0, self.level(at) - tokens * self.limit.token_ticks)
        self.state = settle(level, self.limit, at * SECOND)


class Gateway:
    """What one of N knows by itself."""

    def __init__(self, limit: Limit, parts: int, cost: int, start: Fraction) -> None:
        self.share = Counter(limit.share(parts, start, min(limit.capacity, max(cost, 1))))
        self.spent = 0
        self.used = limit.capacity / parts
        """Tokens of its part, at `at`; all of it, until the store has said something else."""
        self.at = 0

    def spend(self, at: int, tokens: int) -> None:
        assert isinstance(self.share.limit, Limit)
        self.used = used_after(self.used, (at - self.at) * SECOND, self.share.limit, tokens)
        self.at = at
        self.spent += tokens

    def owes(self, at: int) -> int:
        self.spend(at, 0)
        return owed(self.spent, self.used)


class Story:
    """One client and N gateways: exact, then cut off from the store, then exact again.

    Args:
        settles: whether gateways pay what they owe on their return.
        start: what shares begin with.
        forgets: whether the store comes back empty, and knows that it does.
    """

    def __init__(
        self,
        limit: Limit,
        parts: int,
        cost: int,
        *,
        settles: bool = True,
        start: Fraction = START,
        forgets: bool = False,
    ) -> None:
        self.limit = limit
        self.parts = parts
        self.cost = cost
        self.settles = settles
        self.forgets = forgets
        self.store = Counter(limit)
        self.gateways = [Gateway(limit, parts, cost, start) for _ in range(parts)]

    def run(self, away: int, back: int, asked: list[tuple[int, int]]) -> list[Admission]:
        """What is admitted; each asks for all it can get, at (seconds, gateway)."""
        found = []
        for at, number in sorted([*asked, (away, -1), (back, -2)]):
            if number == -1:
                self._lose(at)
            elif number == -2:
                self._return(at)
            else:
                ask = self._by_share if away <= at < back else self._by_store
                found.append((at, ask(self.gateways[number], at)))
        return found

    def _by_share(self, gateway: Gateway, at: int) -> int:
        taken = gateway.share.take_all(at, self.cost)
        gateway.spend(at, taken)
        return taken

    def _by_store(self, gateway: Gateway, at: int) -> int:
        taken = self.store.take_all(at, self.cost)
        if taken:
            gateway.used = (self.limit.capacity - self.limit.remaining(self.store.level(at))) / self.parts
        return taken

    def _lose(self, at: int) -> None:
        for gateway in self.gateways:
            gateway.share.begin(at)
            gateway.at = at
        if self.forgets:
            capacity = self.limit.capacity
            self.store.state = self.limit.spend(None, at * SECOND, capacity - capacity // 10)

    def _return(self, at: int) -> None:
        for gateway in self.gateways if self.settles else ():
            self.store.charge(at, gateway.owes(at))


asked = st.lists(st.tuples(st.integers(0, 120), st.integers(0, 4)), min_size=1, max_size=40)


@st.composite
def stories(draw: st.DrawFn) -> tuple[Limit, int, int, tuple[int, int], list[tuple[int, int]]]:
    """A limit, N, a cost, when the store is away, and who asks."""
    capacity, gateways = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    limit = Limit(capacity, draw(st.fractions(Fraction(1, 50), 5, max_denominator=50)))
    away = draw(st.integers(0, 60))
    times = [(at, gateway % gateways) for at, gateway in draw(asked)]
    return limit, gateways, draw(st.integers(1, capacity)), (away, away + draw(st.integers(1, 60))), times


FULL_THEN_AWAY = (
    Limit(20, Fraction(1, 20)),
    2,
    1,
    (1, 100),
    [(0, 0), *((at, gw) for at in range(1, 120) for gw in (0, 1))],
)


@given(stories(), st.booleans())
@example(FULL_THEN_AWAY, False)
@example(FULL_THEN_AWAY, True)
def test_no_interval_admits_more_than_the_bound_when_the_store_goes_away_and_returns(story: Any, forgets: bool) -> None:
    limit, gateways, cost, (away, back), times = story
    bound = bound_of_limit(limit, Circumstances(gateways, dearest=cost))
    admitted = Story(limit, gateways, cost, forgets=forgets).run(away, back, times)
    assert overshoot(admitted, limit.capacity, limit.refill_per_sec) <= bound.tokens


def test_the_bound_is_reached_and_what_is_left_out_breaks_it() -> None:
    limit, gateways, cost, (away, back), times = FULL_THEN_AWAY
    bound = bound_of_limit(limit, Circumstances(gateways))

    def worst(**changed: Any) -> Fraction:
        admitted = Story(limit, gateways, cost, **changed).run(away, back, times)
        return overshoot(admitted, limit.capacity, limit.refill_per_sec)

    assert bound.tokens - Fraction(1, 20) <= worst() <= bound.tokens == 2  # a second passes between the first two
    assert worst(settles=False) > bound.tokens
    assert worst(start=Fraction(1)) > bound.tokens


def test_shares_that_have_room_for_one_request_each_are_said_to_be_more_than_a_bucket() -> None:
    limit, gateways = Limit(2, Fraction(1, 10)), 5
    bound = bound_of_limit(limit, Circumstances(gateways))
    admitted = Story(limit, gateways, 1).run(0, 200, [(120, gateway) for gateway in range(gateways)])
    assert overshoot(admitted, 2, limit.refill_per_sec) == bound.tokens == 3
    assert bound.ratio == 1.5
    assert "5 gateways save up 1 token each" in bound.parts[0].why


WINDOWS = [FixedWindow(6, 10 * SECOND), SlidingWindow(6, 10 * SECOND), SlidingLog(6, 10 * SECOND)]


@pytest.mark.parametrize("limit", WINDOWS, ids=lambda limit: limit.algorithm)
@given(st.lists(st.integers(0, 80), min_size=1, max_size=60), st.integers(1, 6))
@example([0, 9, 10, 19, 20], 2)
def test_windows_admit_no_more_than_their_bound(limit: AnyLimit, times: list[int], cost: int) -> None:
    bound = bound_of_limit(limit, Circumstances())
    always = sum(part.tokens for part in bound.parts if part.always)
    counter = Counter(limit)
    admitted = [(at, counter.take_all(at, cost)) for at in sorted(times)]
    assert overshoot(admitted, 6, Fraction(6, 10)) <= always


def test_a_fixed_window_lets_all_pass_twice_around_its_end() -> None:
    counter = Counter(FixedWindow(6, 10 * SECOND))
    counter.begin(0)
    admitted = [(9, counter.take_all(9, 1)), (10, counter.take_all(10, 1))]
    assert overshoot(admitted, 6, Fraction(6, 10)) == 6 - Fraction(6, 10)
    bound = bound_of_limit(counter.limit, Circumstances())
    assert bound.part_ratio("window_edge") == 1
    assert bound.ratio == 1.1


def test_the_shortest_windows_of_a_calendar_are_within_its_bound() -> None:
    february = [
        (at * 86_400, 100) for at in (31, 31, 59)
    ]  # the last moment of January, the first of February, of March
    bound = bound_of_limit(CalendarWindow.of(100, "month"), Circumstances())
    edge = next(part for part in bound.parts if part.mechanism == "window_edge")
    assert overshoot(february, 100, Fraction(100, 30 * 86_400)) == edge.tokens
    assert 1 < bound.part_ratio("window_edge") < 1.07


@pytest.mark.parametrize(
    ("given_", "ratio"),
    [
        (Circumstances(), 0.1),
        (Circumstances(gateways=100), 0.1),
        (Circumstances(closed=True), 0.1),
        (Circumstances(gateways=4, lent=3), 0.13),
        (Circumstances(gateways=4, closed=True, lent=3), 0.13),
        (Circumstances(shared=False), 1.0),
        (Circumstances(gateways=4, dearest=50), 1.0),
    ],
)
def test_the_number_is_what_is_always_there_and_the_worst_fault(given_: Circumstances, ratio: float) -> None:
    bound = bound_of_limit(Limit(100, Fraction(1)), given_)
    assert bound.ratio == pytest.approx(ratio)
    assert bound.tokens == sum(part.tokens for part in bound.parts if part.always) + max(
        part.tokens for part in bound.parts if not part.always
    )
    assert {part.mechanism for part in bound.parts} <= set(MECHANISMS)


def test_a_closed_rule_adds_nothing_when_the_store_goes_away() -> None:
    bound = bound_of_limit(Limit(100, Fraction(1)), Circumstances(closed=True))
    assert [part.mechanism for part in bound.parts] == ["empty_restart"]
    assert not any("cut off" in sentence for sentence in bound.besides)


def test_what_no_number_bounds_is_said_in_words() -> None:
    cut_off, untold, failover, clock = bound_of_limit(Limit(100, Fraction(1)), Circumstances(gateways=4)).besides
    assert "each gateway that is cut off alone admits 25 % of the limit" in cut_off
    assert "0.75 tokens by the rate" in untold
    assert "until every gateway has told what it last saw" in failover
    assert "100 tokens at most" in clock


def test_slots_are_given_out_besides_those_that_are_held() -> None:
    bound = bound_of_limit(SlotLimit(10), Circumstances(gateways=4))
    assert bound.tokens == 12
    assert bound.part_ratio("slots") == 1.2
    assert bound_of_limit(SlotLimit(10), Circumstances(gateways=4, closed=True)).tokens == 10


def test_a_limit_of_nothing_admits_nothing() -> None:
    bound = bound_of_limit(Limit(0, Fraction(0)), Circumstances(gateways=4))
    assert (bound.tokens, bound.ratio, bound.part_ratio("local_share"), bound.parts) == (0, 0.0, 0.0, ())
