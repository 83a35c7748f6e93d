"""What was admitted without the store is charged afterwards: once, never below nothing, and never a level raised."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.core.algorithm import AnyLimit, Seen
from limen.core.calendar_window import CalendarWindow
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.stores.base import Charge, Op
from limen.stores.memory import MemoryStore
from limen.testing import ManualClock
from tests.conformance.lua import START_US, Lua

US = 1_000_000
MINUTE = 60 * US
LIMITS: list[AnyLimit] = [
    Limit(10, Fraction(1, 60)),
    Limit(10, Fraction(7, 13)),
    Limit(10, Fraction(0)),
    FixedWindow(10, MINUTE),
    CalendarWindow.of(10, "hour"),
    SlidingWindow(10, MINUTE),
    SlidingLog(10, MINUTE),
]
every_limit = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.algorithm)


class Memory:
    """The memory store, asked as the script is."""

    def __init__(self) -> None:
        self._clock = ManualClock(0)
        self._store = MemoryStore(self._clock.now_us)

    def begin(self) -> None:
        self._store.clear()

    def take(self, ops: list[Op], now_us: int) -> list[Seen]:
        self._at(now_us)
        return self._store.take(ops)

    def grant(self, op: Op, tokens: int, for_us: int, now_us: int) -> Seen:
        self._at(now_us)
        return self._store.grant(op, tokens, for_us)

    def charge(self, charge: Charge, now_us: int) -> Seen:
        self._at(now_us)
        self.charged = self._store.charge(charge)
        return self.charged.seen

    def _at(self, now_us: int) -> None:
        self._clock.set(Fraction(now_us, US))


@pytest.fixture(params=["script", "memory"])
def store(request: pytest.FixtureRequest, lua: Lua) -> Iterator[Any]:
    store: Any = lua if request.param == "script" else Memory()
    store.begin()
    return store


def name_of(number: int) -> bytes:
    return b"%016d" % number


def amount(limit: AnyLimit, seen: Seen) -> Fraction:
    """Tokens, with their fraction."""
    return Fraction(seen, limit.token_ticks) if isinstance(limit, Limit) else Fraction(seen[0])


@every_limit
def test_it_is_charged_once(store: Any, limit: AnyLimit) -> None:
    op = Op("a", "r", limit, 3)
    for _ in range(3):
        assert limit.remaining(store.charge(Charge(op, None, name_of(1)), START_US)) == 7
    assert limit.remaining(store.charge(Charge(op, None, name_of(2)), START_US)) == 4
    assert limit.remaining(store.take([op._replace(cost=0)], START_US)[0]) == 4


@every_limit
def test_one_name_may_charge_several_buckets(store: Any, limit: AnyLimit) -> None:
    for identity, rule in (("a", "r"), ("a", "s"), ("b", "r")):
        op = Op(identity, rule, limit, 3, colocate="together")
        assert limit.remaining(store.charge(Charge(op, None, name_of(1)), START_US)) == 7


@every_limit
def test_more_than_is_there_empties_the_bucket(store: Any, limit: AnyLimit) -> None:
    op = Op("a", "r", limit, 3)
    store.take([op], START_US)
    seen = store.charge(Charge(op._replace(cost=10**12), None, name_of(1)), START_US + 1)
    assert amount(limit, seen) == 0
    assert amount(limit, store.take([op], START_US + 1)[0]) == 0


@every_limit
def test_it_tells_how_much_was_taken_also_when_it_is_repeated(store: Any, limit: AnyLimit) -> None:
    op = Op("a", "r", limit, 7)
    store.charge(Charge(op, None, name_of(1)), START_US)
    assert store.charged.tokens == 7
    for _ in range(2):
        store.charge(Charge(op, None, name_of(2)), START_US)
        assert store.charged.tokens == 3
    store.charge(Charge(op, None, name_of(1)), START_US)
    assert store.charged.tokens == 7
    store.charge(Charge(op._replace(cost=0), 0, b""), START_US)
    assert store.charged.tokens == 0


@every_limit
def test_no_more_is_left_than_the_bound_and_nothing_is_ever_raised(store: Any, limit: AnyLimit) -> None:
    unit = limit.token_ticks if isinstance(limit, Limit) else 1
    look = Op("a", "r", limit, 0)
    for most, left in ((9, 9), (12, 9), (4, 4), (5, 4), (0, 0), (10, 0)):
        assert amount(limit, store.charge(Charge(look, most * unit, b""), START_US)) == left
        assert amount(limit, store.take([look], START_US)[0]) == left


@every_limit
def test_a_charge_and_a_bound_at_once(store: Any, limit: AnyLimit) -> None:
    unit = limit.token_ticks if isinstance(limit, Limit) else 1
    op = Op("a", "r", limit, 2)
    assert amount(limit, store.charge(Charge(op, 9 * unit, name_of(1)), START_US)) == 8
    assert amount(limit, store.charge(Charge(op, 3 * unit, name_of(2)), START_US)) == 3
    assert amount(limit, store.charge(Charge(op, 3 * unit, name_of(2)), START_US)) == 3


@every_limit
def test_a_charge_of_nothing_leaves_no_trace(store: Any, limit: AnyLimit) -> None:
    look = Op("a", "r", limit, 0)
    assert limit.remaining(store.charge(Charge(look, None, b""), START_US)) == 10
    later_us = START_US + 2 * 3600 * US
    store.take([look._replace(cost=10)], later_us)
    assert limit.remaining(store.charge(Charge(look, None, b""), later_us)) == 0


@every_limit
def test_granted_tokens_go_last(store: Any, limit: AnyLimit) -> None:
    op = Op("a", "r", limit, 0)
    store.grant(op, 5, MINUTE, START_US)
    for at, left in ((1, 8), (2, 1), (3, 0)):
        assert amount(limit, store.charge(Charge(op._replace(cost=7), None, name_of(at)), START_US)) == left


stories = st.lists(
    st.tuples(
        st.integers(0, 2 * MINUTE),
        st.sampled_from(["take", "charge", "again", "lower", "both", "grant"]),
        st.integers(0, 14),
        st.integers(0, 12 * US),
    ),
    min_size=1,
    max_size=14,
)


@given(st.sampled_from(LIMITS), stories)
@settings(max_examples=150, deadline=None)
def test_the_script_and_the_memory_store_are_one(lua: Lua, limit: AnyLimit, story: list[Any]) -> None:
    lua.begin()
    memory, names, now_us = Memory(), count(), START_US
    name = name_of(next(names))
    unit = limit.token_ticks if isinstance(limit, Limit) else 1
    for pause_us, deed, cost, part in story:
        now_us += pause_us
        op = Op("a", "r", limit, cost)
        most = part * unit // US
        if deed in ("charge", "both"):
            name = name_of(next(names))
        charge = Charge(op, most if deed in ("lower", "both") else None, name)
        if deed == "lower":
            charge = charge._replace(op=op._replace(cost=0), name=b"")
        for_us = part + 1
        found = [
            store.take([op], now_us)[0]
            if deed == "take"
            else store.grant(op, cost + 1, for_us, now_us)
            if deed == "grant"
            else store.charge(charge, now_us)
            for store in (lua, memory)
        ]
        assert found[0] == found[1], (deed, cost)
