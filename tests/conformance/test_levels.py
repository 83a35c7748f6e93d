"""One property: the arithmetic in `core`, the memory store and the script on real servers always see the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from fractions import Fraction
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from limen.core.algorithm import AnyLimit, Seen
from limen.core.calendar_window import CALENDAR_UNITS, CalendarWindow
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit, exact_rate
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.stores.base import Op, bucket_name
from limen.stores.memory import MemoryStore
from limen.stores.memory_cells import Cells
from limen.stores.memory_stamps import MemoryStamps
from limen.testing import ManualClock
from limen.testing.conformance.model import Model
from tests.conformance.lua import START_US, US, Lua

DAY = 86_400
LONGEST_FILL_S = 70 * 365 * DAY

rates = st.one_of(
    st.sampled_from([Fraction(10, 13), Fraction(7), Fraction(997), Fraction(1, 3), Fraction(0), Fraction(US)]),
    st.sampled_from([1.6667, 16.666666666666668, 0.1, 1 / DAY]).map(exact_rate),
    st.integers(1, US).map(Fraction),
    st.builds(Fraction, st.integers(1, US), st.integers(1, DAY)),
)
windows = st.one_of(st.sampled_from([1000, 999_999, US, 60 * US, 7 * DAY * US]), st.integers(1000, 400 * DAY * US))
small = st.one_of(st.integers(0, 6), st.integers(0, 10**9))


@st.composite
def buckets(draw: st.DrawFn) -> Limit:
    rate = draw(rates)
    most = min(10**6, int(LONGEST_FILL_S * rate)) if rate else 10**6
    return Limit(draw(st.one_of(st.integers(0, min(20, most)), st.integers(1, most))), rate)


def kinds() -> list[st.SearchStrategy[AnyLimit]]:
    """Limits of each algorithm."""
    return [
        buckets(),
        st.builds(FixedWindow, small, windows),
        st.builds(SlidingWindow, small, windows),
        st.builds(SlidingLog, st.integers(0, 12), windows),
        st.builds(
            CalendarWindow.of,
            small,
            st.sampled_from(list(CALENDAR_UNITS)),
            st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe")]),
        ),
    ]


def limits() -> st.SearchStrategy[AnyLimit]:
    return st.one_of(kinds())


class Call(NamedTuple):
    """At a moment, a decision over some buckets, or a grant on the first."""

    now_us: int
    ops: list[Op]
    granted: int = 0
    for_us: int = 0


def fill_us(limit: AnyLimit) -> int:
    """About how long it takes until everything is there again."""
    if isinstance(limit, Limit):
        return int(limit.capacity / limit.refill_per_sec * US) if limit.refills else DAY
    return limit.window_s * US


@st.composite
def runs(draw: st.DrawFn) -> list[Call]:
    """Calls at moments, each of some operations: rules change their limits, clocks step back, costs vary.

    A story has either grants or a clock that steps back: it may bring a grant back that had lapsed.
    """
    chosen = draw(st.lists(limits(), min_size=1, max_size=3))
    longest = max(map(fill_us, chosen))
    grants = draw(st.booleans())
    forward = [st.integers(0, 3), st.integers(0, max(3, longest // 5)), st.integers(0, 2 * longest)]
    back = [st.integers(-DAY * US, 0), st.integers(-1000, 0)]
    pause = st.one_of(forward if grants else forward + back)
    now_us, calls = START_US, []
    for _ in range(draw(st.integers(1, 15))):
        now_us += draw(pause)
        named = draw(st.lists(st.sampled_from(BUCKETS), min_size=1, max_size=4, unique=True))
        ops = [draw(operations(bucket, chosen)) for bucket in named]
        granted = draw(st.sampled_from([0] * 4 + [1, 7])) if grants else 0
        calls.append(
            Call(now_us, ops[:1], granted, draw(st.integers(1, 2 * longest + 1))) if granted else Call(now_us, ops)
        )
    return calls


BUCKETS = [("a", "r", ""), ("a", "s", ""), ("b", "r", ""), ("a", "t", ""), ("b", "s", "x"), ("b", "t", "x")]


@st.composite
def operations(draw: st.DrawFn, bucket: tuple[str, str, str], chosen: Sequence[AnyLimit]) -> Op:
    limit = draw(st.sampled_from(chosen))
    too_much = st.sampled_from([limit.capacity + 1, 10**9])
    cost = draw(st.one_of(st.integers(0, 3), st.integers(0, limit.capacity), too_much))
    identity, rule, colocate = bucket
    often = st.sampled_from([True, True, True, False])
    return Op(identity, rule, limit, cost, draw(often), draw(often), colocate)


class Core(Model):
    """The model of the conformance kit, under a clock that may step back as well."""

    def take(self, ops: Sequence[Op], now_us: int) -> list[Seen]:
        seen = super().take(ops, now_us)
        self._pull_in(ops, now_us)
        return seen

    def grant(self, op: Op, tokens: int, for_us: int, now_us: int) -> Seen:
        self._pull_in([op], now_us)
        return super().grant(op, tokens, for_us, now_us)

    def _pull_in(self, ops: Sequence[Op], now_us: int) -> None:
        """What lies in the future is settled as soon as it is seen."""
        for op in ops:
            key = op.identity, bucket_name(op.rule, op.limit.algorithm)
            kept = self._kept.get(key)
            if kept is not None and kept.state is not None and op.limit.stepped_back(kept.state, now_us):
                self._kept[key] = kept._replace(state=op.limit.spend(kept.state, now_us, 0))


class Remembering(MemoryStore):
    """Forgets nothing: a store may forget a full bucket, and under another limit a new bucket is full as well."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock.now_us)
        self._cells = _Endless(1)
        self._stamps = MemoryStamps(self._cells)


class _Endless(Cells):
    def make_room(self, now_us: int) -> None:
        """There is room."""


@given(runs())
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate, Phase.shrink]
)
def test_core_memory_and_script_see_the_same(lua: Lua, run: list[Call]) -> None:
    core, clock = Core(), ManualClock()
    memory = Remembering(clock)
    lua.begin()
    for call in run:
        clock.set(call.now_us / US)
        now_us, ops = clock.now_us(), call.ops
        if call.granted:
            expected = core.grant(ops[0], call.granted, call.for_us, now_us)
            assert memory.grant(ops[0], call.granted, call.for_us) == expected
            assert lua.grant(ops[0], call.granted, call.for_us, now_us) == expected
        else:
            expected = core.take(ops, now_us)
            assert memory.take(ops) == expected
            assert list(lua.take(ops, now_us)) == expected


@given(runs())
@settings(max_examples=60, deadline=None)
def test_the_short_cut_of_the_memory_store_sees_the_same(run: list[Call]) -> None:
    clock = ManualClock()
    long, short = Remembering(clock), Remembering(clock)
    for call in run:
        clock.set(call.now_us / US)
        for op in call.ops:
            if isinstance(op.limit, Limit):
                enforced = op._replace(enforce=True, spend=True)
                level = short.take_one((op.identity, op.rule), op.limit, op.cost * op.limit.token_ticks)
                assert long.take([enforced]) == [level]


@given(runs())
@settings(max_examples=60, deadline=None)
def test_the_order_of_operations_does_not_matter(lua: Lua, run: list[Call]) -> None:
    core = Core()
    lua.begin()
    for call in run:
        shuffled = sorted(call.ops, key=lambda op: (op.rule, op.identity), reverse=True)
        found = dict(zip(shuffled, lua.take(shuffled, call.now_us), strict=True))
        assert [found[op] for op in call.ops] == core.take(call.ops, call.now_us)
