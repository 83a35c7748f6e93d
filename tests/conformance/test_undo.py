"""What was taken is given back exactly, once, and never to a bucket that no longer owes it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.core.algorithm import AnyLimit
from limen.core.calendar_window import CalendarWindow
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.stores.base import Op
from tests.conformance.lua import START_US, Lua

US = 1_000_000
MINUTE = 60 * US
LIMITS: list[AnyLimit] = [
    Limit(10, Fraction(1, 60)),
    Limit(10, Fraction(7, 13)),
    FixedWindow(10, MINUTE),
    CalendarWindow.of(10, "hour"),
    SlidingWindow(10, MINUTE),
    SlidingLog(10, MINUTE),
]
every_limit = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.algorithm)
ID = b"0123456789abcdef"


@every_limit
def test_everything_is_as_if_nothing_had_been_taken(lua: Lua, limit: AnyLimit) -> None:
    lua.begin()
    one, other = Op("a", "r", limit, 3), Op("a", "s", limit, 1)
    lua.take([one], START_US)
    lua.take_remembered([one, other], ID, START_US + US)
    assert lua.undo([one, other], ID, START_US + 2 * US) == 2
    looks = [op._replace(cost=0) for op in (one, other)]
    left = [limit.remaining(seen) for seen in lua.take(looks, START_US + 2 * US)]
    assert left[1] == 10
    assert left[0] == (8 if isinstance(limit, Limit) and limit.refill_per_sec > Fraction(1, 2) else 7)


@every_limit
def test_it_is_given_back_once(lua: Lua, limit: AnyLimit) -> None:
    lua.begin()
    op = Op("a", "r", limit, 3)
    lua.take([op], START_US)
    lua.take_remembered([op], ID, START_US)
    assert [lua.undo([op], ID, START_US) for _ in range(3)] == [1, 0, 0]
    (seen,) = lua.take([op._replace(cost=0)], START_US)
    assert limit.remaining(seen) == 7


@every_limit
def test_what_is_to_be_kept_stays_charged(lua: Lua, limit: AnyLimit) -> None:
    lua.begin()
    one, other = Op("a", "r", limit, 3), Op("a", "s", limit, 1)
    lua.take_remembered([one, other], ID, START_US)
    assert [lua.undo([one, other], ID, START_US, [other]) for _ in range(2)] == [1, 0]
    looks = [op._replace(cost=0) for op in (one, other)]
    assert [limit.remaining(seen) for seen in lua.take(looks, START_US)] == [10, 9]


@every_limit
def test_nothing_is_given_back_that_was_not_taken(lua: Lua, limit: AnyLimit) -> None:
    lua.begin()
    op = Op("a", "r", limit, 6)
    lua.take([op], START_US)
    lua.take_remembered([op], ID, START_US)  # refused: only 4 are there
    assert lua.undo([op], ID, START_US) == 0
    assert lua.undo([op], b"never heard of it", START_US) == 0
    (seen,) = lua.take([op._replace(cost=0)], START_US)
    assert limit.remaining(seen) == 4


@every_limit
def test_a_bucket_that_came_back_meanwhile_is_given_nothing(lua: Lua, limit: AnyLimit) -> None:
    """Two hours later everything is there again, and what is spent then stays spent."""
    lua.begin()
    op = Op("a", "r", limit, 9)
    lua.take_remembered([op], ID, START_US)
    later_us = START_US + 2 * 3600 * US
    lua.take([op], later_us)
    lua.undo([op], ID, later_us)
    (seen,) = lua.take([op._replace(cost=0)], later_us)
    assert limit.remaining(seen) == (10 if isinstance(limit, Limit) else 1)


def test_granted_tokens_come_back_too(lua: Lua) -> None:
    lua.begin()
    limit = Limit(4, Fraction(1, 3600))
    op = Op("a", "r", limit, 4)
    lua.take([op], START_US)
    lua.grant(op, 5, MINUTE, START_US)
    lua.take_remembered([op], ID, START_US)
    assert lua.undo([op], ID, START_US) == 1
    (seen,) = lua.take([op._replace(cost=0)], START_US)
    assert limit.remaining(seen) == 5


@given(
    st.sampled_from(LIMITS),
    st.lists(st.tuples(st.integers(0, 3 * MINUTE), st.integers(1, 6), st.booleans()), min_size=1, max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_giving_back_never_makes_more_than_there_would_have_been(
    lua: Lua, limit: AnyLimit, story: list[tuple[int, int, bool]]
) -> None:
    """Beside each client walks one who asks only for what the other keeps: it never has less."""
    lua.begin()
    now_us = START_US
    for number, (pause_us, cost, keeps) in enumerate(story):
        now_us += pause_us
        op, undo = Op("a", "r", limit, cost), b"%016d" % number
        (seen,) = lua.take_remembered([op], undo, now_us)
        if not keeps:
            lua.undo([op], undo, now_us)
        elif limit.allows(seen, cost):
            assert limit.allows(lua.take([op._replace(identity="b")], now_us)[0], cost)
        looks = [Op(name, "r", limit, 0) for name in "ab"]
        mine, its = (limit.remaining(lua.take([look], now_us)[0]) for look in looks)
        assert mine <= its
