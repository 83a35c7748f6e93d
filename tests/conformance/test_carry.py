"""Buckets that move to a new limit, and candidates beside a limit: memory and the script always see the same.

With LIMEN_LONG=1 fifty times as many stories.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import hiredis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from limen.core.algorithm import AnyLimit
from limen.core.carry import CARRY_OVERS, Carry, CarryOver
from limen.stores.base import Op, bucket_name
from limen.testing import ManualClock
from limen.testing.conformance.limits import slow
from tests.conformance.lua import START_US, US, Lua
from tests.conformance.test_levels import DAY, Remembering, fill_us, kinds

FAR_US = START_US + 10**6 * DAY * US
KINDS = kinds()
BUCKETS = [("a", "r"), ("a", "s"), ("b", "r")]


class Call(NamedTuple):
    """At a moment, a decision over some buckets."""

    now_us: int
    ops: list[Op]


class Setting(NamedTuple):
    """Limits of one kind that a rule had one after the other, and how each was carried over."""

    limits: list[AnyLimit]
    hows: list[CarryOver]
    ends_us: int

    def op(self, identity: str, rule: str, generation: int, cost: int) -> Op:
        """What a gateway asks that knows as many of them."""
        carry = None
        if generation:
            carry = Carry(generation, self.hows[generation], self.limits[0], self.ends_us)
        return Op(identity, rule, self.limits[generation], cost, carry=carry)


@st.composite
def changes(draw: st.DrawFn) -> Setting:
    chosen = draw(st.lists(draw(st.sampled_from(KINDS)), min_size=2, max_size=4))
    hows = draw(st.lists(st.sampled_from(CARRY_OVERS), min_size=len(chosen), max_size=len(chosen)))
    return Setting(chosen, hows, draw(st.sampled_from([FAR_US, START_US + 3600 * US])))


@st.composite
def runs(draw: st.DrawFn) -> list[Call]:
    """Calls of gateways that know of a change, do not yet, or try a candidate besides."""
    setting = draw(changes())
    longest = max(map(fill_us, setting.limits))
    pause = st.one_of(st.integers(0, 3), st.integers(0, max(3, longest // 5)), st.integers(0, 2 * longest))
    now_us, calls = START_US, []
    for _ in range(draw(st.integers(1, 12))):
        now_us += draw(pause)
        ops: list[Op] = []
        for identity, rule in draw(st.lists(st.sampled_from(BUCKETS), min_size=1, max_size=3, unique=True)):
            ops += draw(questions(setting, identity, rule))
        calls.append(Call(now_us, ops))
    return calls


@st.composite
def questions(draw: st.DrawFn, setting: Setting, identity: str, rule: str) -> list[Op]:
    """A question to a bucket, and perhaps to that of its candidate."""
    known = draw(st.integers(0, len(setting.limits) - 1))
    most = setting.limits[known].capacity
    op = setting.op(identity, rule, known, draw(st.one_of(st.integers(0, 3), st.integers(0, most), st.just(most + 1))))
    often = st.sampled_from([True, True, True, False])
    op = op._replace(enforce=draw(often), spend=draw(often))
    if draw(st.booleans()):
        return [op]
    beside = bucket_name(rule, op.limit.algorithm)
    other = draw(st.sampled_from(setting.limits))
    return [op, op._replace(rule=f"{rule}@candidate", limit=other, enforce=False, beside=beside, carry=None)]


@given(runs())
@settings(
    max_examples=3000 if os.environ.get("LIMEN_LONG") else 60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
def test_memory_and_script_see_the_same(lua: Lua, run: list[Call]) -> None:
    clock = ManualClock()
    memory = Remembering(clock)
    lua.begin()
    for call in run:
        clock.set(call.now_us / US)
        assert list(lua.take(call.ops, clock.now_us())) == memory.take(call.ops), call


@pytest.mark.parametrize(
    "stamp", [b"0:0:0:0", b"-1:-1:-1:-1", b"1:0:-5:0", b"99999999999999999999:1:1:1", b"x:1:1:1", b""]
)
def test_a_stamp_that_nobody_can_have_written_is_a_bucket_that_nobody_knows(lua: Lua, stamp: bytes) -> None:
    for before, after in zip(slow(10), slow(20), strict=True):
        lua.begin()
        op = Op("a", "r", before, 1)
        lua.take([op], START_US)
        key, field = lua.place(op)
        lua.ask(hiredis.pack_command(("HSET", key, field, b"@2:9000000000000000:" + stamp + b";")))
        moving = op._replace(limit=after, carry=Carry(3, "proportional", before, FAR_US))
        for asked in (moving, op, moving):
            (seen,) = lua.take([asked], START_US)
            assert asked.limit.remaining(seen) <= asked.limit.capacity
