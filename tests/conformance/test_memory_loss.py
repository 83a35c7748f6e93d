"""A server that lost its memory: who finds it out, and what a bucket then begins with."""

from __future__ import annotations

from fractions import Fraction
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.core.algorithm import AnyLimit
from limen.core.calendar_window import CalendarWindow
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.stores.base import Charge, Op
from limen.stores.valkey.wire import EPOCH_US
from tests.conformance.lua import START_US, Lua

US = 1_000_000
MINUTE = 60 * US
LIMITS: list[AnyLimit] = [
    Limit(100, Fraction(1)),
    Limit(25, Fraction(7, 13)),
    Limit(7, Fraction(1, 60)),
    Limit(100, Fraction(0)),
    FixedWindow(100, MINUTE),
    CalendarWindow.of(100, "hour"),
    SlidingWindow(100, MINUTE),
    SlidingLog(100, MINUTE),
]
every_limit = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.algorithm} {limit.capacity}")
slots = count(1)
START = START_US - EPOCH_US
"""The same moment by the clock of the script."""


def ids(number: int) -> tuple[bytes, ...]:
    return tuple(b"%016x" % at for at in range(1, number + 1))


def test_a_store_that_nobody_knew_has_lost_nothing(lua: Lua) -> None:
    slot, (a, b) = next(slots), ids(2)
    assert lua.mark(b"", a, START_US, slot=slot) == (a, 0, START)
    assert lua.mark(b"", b, START_US + US, slot=slot) == (a, 0, START + US)
    assert lua.mark(a, b, START_US + US, slot=slot).id == a


def test_who_knew_it_and_finds_nothing_writes_down_the_loss_once(lua: Lua) -> None:
    slot, (known, one, other) = next(slots), ids(3)
    found = lua.mark(known, one, START_US, slot=slot)
    assert found == (one, START, START)
    later = lua.mark(known, other, START_US + US, slot=slot)
    assert later == (one, START, START + US), "the second finds what the first has written"


def test_a_newcomer_who_was_there_first_hides_no_loss(lua: Lua) -> None:
    slot, (known, newcomers, mine, later) = next(slots), ids(4)
    assert lua.mark(b"", newcomers, START_US, slot=slot).lost_us == 0
    assert lua.mark(known, mine, START_US + US, slot=slot) == (mine, START + US, START + US)
    assert lua.mark(b"", later, START_US + 2 * US, slot=slot).lost_us == START + US, "he sees it at his second look"
    assert lua.mark(newcomers, later, START_US + 2 * US, slot=slot) == (mine, START + US, START + 2 * US)


def test_a_loss_that_is_known_otherwise_is_written_down_too(lua: Lua) -> None:
    """The mark of a server went with its slot: the next one says the same."""
    slot, (one, _) = next(slots), ids(2)
    assert lua.mark(b"", one, START_US, START - 5 * US, slot=slot).lost_us == START - 5 * US


@every_limit
def test_what_nobody_remembers_was_spent_but_for_a_tenth(lua: Lua, limit: AnyLimit) -> None:
    lua.begin()
    young = lua.after_loss(START)
    (seen,) = young.take([Op("a", "r", limit, 0)], START_US)
    assert limit.remaining(seen) == limit.capacity // 10


ops = st.tuples(st.integers(0, 2 * MINUTE), st.integers(0, 40), st.sampled_from(["take", "look", "charge"]))


@given(st.sampled_from(LIMITS), st.integers(0, 3 * MINUTE), st.lists(ops, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_it_is_as_if_somebody_had_spent_it_at_that_moment(
    lua: Lua, limit: AnyLimit, ago_us: int, story: list[tuple[int, int, str]]
) -> None:
    """Beside it walks the arithmetic of the algorithm."""
    lua.begin()
    young, now_us = lua.after_loss(START - ago_us), START_US
    state = limit.spend(None, START_US - ago_us, limit.capacity - limit.capacity // 10)
    for number, (pause_us, cost, deed) in enumerate(story):
        now_us += pause_us
        op = Op("a", "r", limit, cost if deed != "look" else 0)
        expected = limit.look(state, now_us, op.cost)
        if deed == "charge":
            name = b"%016d" % number
            assert limit.remaining(young.charge(Charge(op, None, name if cost else b""), now_us)) == max(
                0, limit.remaining(expected) - cost
            )
            spent = min(cost, limit.remaining(expected))
            if isinstance(limit, Limit) and cost > spent:
                return  # the rest of a token went too, for which the arithmetic has no word
            state = limit.spend(state, now_us, spent) if spent else state
        else:
            assert young.take([op], now_us) == [expected]
            if op.cost and limit.allows(expected, op.cost):
                state = limit.spend(state, now_us, op.cost)


@every_limit
def test_what_it_remembers_was_not_lost(lua: Lua, limit: AnyLimit) -> None:
    lua.begin()
    op = Op("a", "r", limit, 2)
    lua.take([op], START_US)
    young = lua.after_loss(START + US)
    (seen,) = young.take([op._replace(cost=0)], START_US + US)
    assert limit.remaining(seen) >= limit.capacity - 2


@every_limit
@pytest.mark.parametrize("rule", ["r", None])
def test_a_reset_gives_a_full_bucket_also_then(lua: Lua, limit: AnyLimit, rule: str | None) -> None:
    lua.begin()
    young = lua.after_loss(START)
    op = Op("a", "r", limit, 1)
    young.take([op], START_US)
    young.reset(op, rule)
    (seen,) = young.take([op._replace(cost=0)], START_US + US)
    assert limit.remaining(seen) == limit.capacity


def test_grants_begin_with_a_tenth_too(lua: Lua) -> None:
    lua.begin()
    limit, young = Limit(100, Fraction(0)), lua.after_loss(START)
    look = Op("a", "r", limit, 0)
    assert young.grant(look, 5, MINUTE, START_US) == 15 * limit.token_ticks
    assert young.take([look._replace(cost=15)], START_US) == [15 * limit.token_ticks]
    assert young.take([look], START_US) == [0]


def test_several_buckets_at_once(lua: Lua) -> None:
    lua.begin()
    young = lua.after_loss(START)
    limits = [Limit(100, Fraction(1)), Limit(10, Fraction(1)), FixedWindow(40, MINUTE)]
    several = [Op(name, f"r{at}", limit, 1) for at, limit in enumerate(limits) for name in "ab"]
    found = young.take(several, START_US)
    assert [op.limit.remaining(seen) for op, seen in zip(several, found, strict=True)] == [10, 10, 1, 1, 4, 4]
    found = young.take([op._replace(cost=0) for op in several], START_US)
    assert [op.limit.remaining(seen) for op, seen in zip(several, found, strict=True)] == [9, 9, 0, 0, 3, 3]


def test_a_clock_behind_the_loss_takes_no_more_than_it(lua: Lua) -> None:
    lua.begin()
    young = lua.after_loss(START + 3600 * US)
    (seen,) = young.take([Op("a", "r", Limit(100, Fraction(1)), 0)], START_US)
    assert Limit(100, Fraction(1)).remaining(seen) == 10
