"""Who is alive, and how many were: it rises at once and falls only after ten minutes."""

from __future__ import annotations

from itertools import count

import pytest

from tests.conformance.lua import START_US, Lua

S = 1_000_000
runs = count()


@pytest.fixture
def begin_us(lua: Lua) -> int:
    """An hour after whatever was heard before."""
    return START_US + next(runs) * 3600 * S


def test_everybody_is_counted_at_once(lua: Lua, begin_us: int) -> None:
    assert [lua.beat(f"g{at}", begin_us) for at in range(4)] == [(at, at) for at in range(1, 5)]
    assert lua.beat("g2", begin_us + S) == (4, 4)


def test_who_is_silent_for_ten_seconds_is_not_alive(lua: Lua, begin_us: int) -> None:
    lua.beat("a", begin_us)
    lua.beat("b", begin_us)
    assert lua.beat("a", begin_us + 10 * S - 1) == (2, 2)
    assert lua.beat("a", begin_us + 10 * S) == (1, 2)


def test_who_leaves_is_gone_at_once_and_remembered_for_ten_minutes(lua: Lua, begin_us: int) -> None:
    for at in range(50):
        lua.beat(f"g{at}", begin_us)
    for at in range(1, 50):
        lua.leave(f"g{at}", begin_us + S)
    for second in range(5, 600, 5):
        assert lua.beat("g0", begin_us + second * S) == (1, 50)
    assert lua.beat("g0", begin_us + 661 * S) == (1, 1)


def test_a_fleet_that_doubles_counts_double_at_once(lua: Lua, begin_us: int) -> None:
    for at in range(50):
        lua.beat(f"g{at}", begin_us)
    assert [lua.beat(f"h{at}", begin_us + S)[1] for at in range(50)] == list(range(51, 101))


def test_a_clock_that_steps_leaves_nobody_alive_for_long_and_forgets_nobody_too_soon(lua: Lua, begin_us: int) -> None:
    for at in range(3):
        lua.beat(f"g{at}", begin_us)
    back_us = begin_us - 1800 * S
    assert lua.beat("g0", back_us) == (3, 3)
    assert lua.beat("g0", back_us + 10 * S) == (1, 3)
    assert lua.beat("g0", back_us + 700 * S) == (1, 1)


@pytest.mark.parametrize("garbage", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x2a"])
def test_a_record_that_nobody_can_read_is_made_anew(lua: Lua, begin_us: int, garbage: bytes) -> None:
    lua.overwrite_gateways(garbage)
    assert lua.beat("a", begin_us) == (1, 1)


def test_something_else_under_its_name_is_replaced(lua: Lua, begin_us: int) -> None:
    lua.overwrite_gateways(None)
    assert lua.beat("a", begin_us) == (1, 1)
