"""Leases: the script on both servers and the store in memory keep the same books, and the books keep their promise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.core.limit import Limit
from limen.core.loans import MOST_HOLDERS, Claim
from limen.stores.base import Borrow, Lent, Op
from limen.stores.memory import MemoryStore
from limen.testing import ManualClock
from tests.conformance.lua import START_US, Lua

US = 1_000_000
TTL_US = US
HUNDRED = Limit(1000, Fraction(100))
SLOW = Limit(1000, Fraction(1, 60))


class Twins:
    """The script and the store in memory, asked the same at the same moments; they must answer the same."""

    def __init__(self, lua: Lua, limit: Limit) -> None:
        lua.begin()
        self.limit = limit
        self._lua = lua
        self._clock = ManualClock(START_US / US)
        self._memory = MemoryStore(self._clock.now_us)
        self._number = 0

    @property
    def now_us(self) -> int:
        return self._clock.now_us()

    def advance(self, us: int) -> None:
        self._clock.set((self.now_us + us) / US)

    def borrow(self, holder: bytes, want: int, left: int = 0, back: int = 0, most: int = 30, late: int = 0) -> Lent:
        """`late`: by how many questions of the same gateway it was overtaken."""
        self._number += 1
        claim = Claim(holder.ljust(8, b"."), self._number - late, left, back, most, TTL_US)
        borrow = Borrow(Op("acme", "r", self.limit, want), claim)
        lent = self._memory.borrow(borrow)
        assert self._lua.borrow(borrow, self.now_us) == lent
        return lent

    def take(self, cost: int) -> bool:
        op = Op("acme", "r", self.limit, cost)
        (seen,) = self._memory.take([op])
        assert list(self._lua.take([op], self.now_us)) == [seen]
        return self.limit.allows(seen, cost)

    def left(self) -> int:
        """Whole tokens in the bucket."""
        op = Op("acme", "r", self.limit, 0)
        (seen,) = self._memory.take([op])
        assert list(self._lua.take([op], self.now_us)) == [seen]
        return self.limit.remaining(seen)

    def grant(self, tokens: int) -> None:
        op = Op("acme", "r", self.limit, 0)
        self._memory.grant(op, tokens, 3600 * US)
        self._lua.grant(op, tokens, 3600 * US, self.now_us)


@pytest.fixture
def twins(lua: Lua) -> Twins:
    return Twins(lua, SLOW)


def test_what_is_lent_has_left_the_bucket(twins: Twins) -> None:
    assert twins.borrow(b"a", 20)[:2] == (20, 0)
    assert twins.left() == 980


def test_all_gateways_together_get_no_more_than_may_be_on_loan(twins: Twins) -> None:
    lent = [twins.borrow(b"%d" % gateway, 20).tokens for gateway in range(4)]
    assert lent == [20, 10, 0, 0]
    assert twins.left() == 970


def test_what_was_spent_makes_room_again(twins: Twins) -> None:
    twins.borrow(b"a", 30)
    assert twins.borrow(b"a", 30, left=10)[:2] == (20, 10)
    assert twins.borrow(b"b", 30)[:2] == (0, 0)
    assert twins.borrow(b"a", 0, left=5)[:2] == (0, 5)
    assert twins.borrow(b"b", 30)[:2] == (25, 0)


def test_a_lease_is_on_loan_until_its_end_and_not_longer(twins: Twins) -> None:
    twins.borrow(b"a", 30)
    twins.advance(TTL_US - 1)
    assert twins.borrow(b"b", 30).tokens == 0
    twins.advance(1)
    assert twins.borrow(b"b", 30).tokens == 30


def test_what_is_given_back_is_there_again(twins: Twins) -> None:
    twins.borrow(b"a", 30)
    twins.borrow(b"a", 0, back=12)
    assert twins.left() == 982
    assert twins.borrow(b"b", 30).tokens == 30, "and nothing of it is on loan any more"


def test_a_part_can_be_given_back(twins: Twins) -> None:
    twins.borrow(b"a", 30)
    assert twins.borrow(b"a", 0, left=10, back=5)[:2] == (0, 10)
    assert twins.left() == 975
    assert twins.borrow(b"b", 30).tokens == 20


def test_nothing_is_given_back_twice(twins: Twins) -> None:
    twins.borrow(b"a", 30)
    for _ in range(3):
        twins.borrow(b"a", 0, back=30)
    twins.take(1)
    assert twins.left() == 999


def test_nobody_gives_back_more_than_was_lent(twins: Twins) -> None:
    twins.take(500)
    twins.borrow(b"a", 10)
    twins.borrow(b"a", 0, back=400)
    assert twins.left() == 500
    twins.borrow(b"b", 0, back=400)
    assert twins.left() == 500


def test_an_expired_lease_is_neither_kept_nor_given_back(twins: Twins) -> None:
    twins.borrow(b"a", 30)
    twins.advance(TTL_US)
    assert twins.borrow(b"a", 0, left=10, back=20).kept == 0
    assert twins.left() == 970


def test_a_lease_that_is_taken_anew_lasts_anew(twins: Twins) -> None:
    twins.borrow(b"a", 30)
    twins.advance(TTL_US - 1)
    assert twins.borrow(b"a", 0, left=30).kept == 30
    twins.advance(TTL_US - 1)
    assert twins.borrow(b"b", 30).tokens == 0
    assert twins.borrow(b"a", 0, left=30).kept == 30


def test_a_question_that_was_overtaken_changes_nothing(twins: Twins) -> None:
    twins.borrow(b"a", 10)
    twins.borrow(b"a", 10, left=2)
    before = twins.left()
    assert twins.borrow(b"a", 10, left=9, back=9, late=1)[:2] == (0, 0)
    assert twins.left() == before
    assert twins.borrow(b"b", 30).tokens == 18, "of the first gateway two and ten are on loan"


def test_of_little_at_most_half_is_lent(twins: Twins) -> None:
    twins.take(995)
    assert twins.borrow(b"a", 30).tokens == 2
    twins.take(2)
    assert twins.borrow(b"b", 30).tokens == 0
    assert twins.left() == 1


def test_granted_tokens_are_not_lent(twins: Twins) -> None:
    twins.take(1000)
    twins.grant(50)
    assert twins.borrow(b"a", 30).tokens == 0
    assert twins.left() == 50


def test_a_grant_stays_when_something_is_lent(twins: Twins) -> None:
    twins.grant(50)
    lent = twins.borrow(b"a", 30)
    assert (lent.tokens, SLOW.remaining(lent.seen)) == (30, 1020)
    assert twins.left() == 1020


def test_a_clock_that_steps_back_keeps_no_lease_for_longer(twins: Twins) -> None:
    twins.borrow(b"a", 30)
    twins.advance(-3600 * US)
    assert twins.borrow(b"b", 30).tokens == 0
    twins.advance(TTL_US)
    assert twins.borrow(b"b", 30).tokens == 30


def test_the_books_are_bounded(twins: Twins) -> None:
    for gateway in range(MOST_HOLDERS):
        assert twins.borrow(b"%d" % gateway, 2, most=1000).tokens == 2
    assert twins.borrow(b"last", 2, most=1000).tokens == 0
    assert twins.borrow(b"1", 2, left=2, most=1000)[:2] == (2, 2), "who is in them goes on"
    twins.advance(TTL_US)
    assert twins.borrow(b"last", 2, most=1000).tokens == 2


def test_the_books_live_as_long_as_the_lease(lua: Lua) -> None:
    limit = Limit(1000, Fraction(1_000_000))  # its bucket says nothing after a millisecond
    Twins(lua, limit).borrow(b"a", 30)
    assert lua.lives_ms(Op("acme", "r", limit, 0)) >= TTL_US // 1000


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3 * TTL_US // 2),
        st.sampled_from([b"a", b"b", b"c"]),
        st.integers(0, 40),
        st.integers(0, 40),
        st.sampled_from(["spend", "borrow", "borrow", "back", "take", "die"]),
    ),
    max_size=40,
)


class Gateway:
    """What a gateway believes that it holds, as `engine/leases.py` does."""

    def __init__(self) -> None:
        self.left = 0
        self.until_us = 0

    def valid(self, now_us: int) -> int:
        return self.left if now_us < self.until_us else 0


@given(STEPS, st.sampled_from([HUNDRED, SLOW]), st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_no_interval_admits_more_than_the_envelope_and_what_may_be_on_loan(
    lua: Lua, steps: list[Any], limit: Limit, most: int
) -> None:
    """Every admission is noted, and every interval looked at."""
    twins, gateways = Twins(lua, limit), {name: Gateway() for name in (b"a", b"b", b"c")}
    admitted: list[tuple[int, int]] = []
    for pause_us, name, amount, left, what in steps:
        twins.advance(pause_us)
        admitted.append((twins.now_us, step(twins, gateways[name], name, amount, left, what, most)))
        assert sum(gateway.valid(twins.now_us) for gateway in gateways.values()) <= most
    for first in range(len(admitted)):
        total = 0
        for at_us, tokens in admitted[first:]:
            total += tokens
            assert total <= limit.capacity + limit.refill_per_sec * (at_us - admitted[first][0]) / US + most


def step(twins: Twins, gateway: Gateway, name: bytes, amount: int, left: int, what: str, most: int) -> int:
    """One thing that a gateway does; how much it admitted by that."""
    valid = gateway.valid(twins.now_us)
    if what == "take":
        return amount * 25 if twins.take(amount * 25) else 0
    if what == "spend":
        spent = min(amount, valid)
        gateway.left = valid - spent
        return spent
    if what == "die":
        gateway.left = 0
        return 0
    back = min(left, valid) if what == "back" else 0
    lent = twins.borrow(name, 0 if what == "back" else amount, left=valid - back, back=back, most=most)
    gateway.left, gateway.until_us = lent.kept + lent.tokens, twins.now_us + TTL_US
    return 0
