"""Public faults of leases, none of which is ours. Each test is named after its case."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import pytest

from limen.core.limit import Limit
from limen.core.loans import Claim
from limen.rules.model import Rule
from limen.stores.base import Borrow, Op

pytestmark = pytest.mark.parametrize("lab", ["Valkey"], indirect=True)

TTL_US = 1_000_000


def borrow(holder: bytes, limit: Limit, want: int, most: int) -> Borrow:
    return Borrow(Op("client=acme", "r", limit, want), Claim(holder.ljust(8), 1, 0, 0, most, TTL_US))


async def ask(door: Any, times: int) -> int:
    """How many of so many requests were allowed."""
    allowed = 0
    for _ in range(times):
        allowed += (await door.take()).allowed
        await asyncio.gather(*door.limiter._borrowing._tasks)
    return allowed


async def test_LC_07_the_first_asker_is_lent_one_batch_and_the_others_get_the_rest(lab: Any) -> None:
    door = await lab.bucket(100, Fraction(1, 1000))
    limit = door.limiter.ruleset.rules[0].limit
    store = door.limiter._store
    lent = await store.borrow(borrow(b"node 1", limit, 20, 20))
    assert lent.tokens == 20
    assert await ask(door, 80) == 80
    assert not (await door.take()).allowed


async def test_LC_07_a_gateway_that_asks_most_leaves_the_others_their_part(lab: Any) -> None:
    """Through and through: a rule with batches of ten, the most that a limit of a hundred lends."""
    rule = Rule("r", capacity=100, refill_per_sec=Fraction(1, 1000), lease={"size": 10})
    first, *others = [await lab.open(rule) for _ in range(5)]
    assert await ask(first, 11) == 11
    held = first.limiter.leases.held["client=acme", "r"].left
    assert 0 < held <= 10
    assert [await ask(each, 20) for each in others] == [20, 20, 20, 100 - 60 - 11 - held]
    assert await ask(first, 20) == held, "what it holds is its own"


async def test_LC_08_a_crash_loses_the_lease_and_gives_out_nothing_twice(lab: Any) -> None:
    """Unspent tokens of a gateway that died stay spent. Nothing of a quota that never refills is lent (rules/lease.py);
    this is what would happen."""
    door = await lab.bucket(100, Fraction(0))
    limit = door.limiter.ruleset.rules[0].limit
    store = door.limiter._store
    assert (await store.borrow(borrow(b"node 1", limit, 20, 20))).tokens == 20
    spent_before_the_crash = 5
    allowed = await ask(door, 100)
    assert allowed == 80
    lab.advance(TTL_US / 1_000_000)
    allowed += await ask(door, 100)
    assert (allowed, spent_before_the_crash + allowed <= 100) == (80, True)


async def test_LC_08_what_a_crash_took_grows_back_and_can_be_lent_again(lab: Any) -> None:
    """No quota shrinks for ever: the bucket fills up, and the books forget the dead within a lease."""
    rule = Rule("r", capacity=1000, refill_per_sec=10, lease={"size": 100})
    dead, alive = await lab.open(rule), await lab.open(rule)
    assert await ask(dead, 11) == 11
    assert dead.limiter.leases.held
    dead.limiter._leases.begin_after_fork()  # nothing is given back any more
    limit = rule.limit
    store = alive.limiter._store
    assert (await store.borrow(borrow(b"node 2", limit, 100, 100))).tokens == 0, "all is on loan still"
    lab.advance(TTL_US / 1_000_000)
    assert (await store.borrow(borrow(b"node 3", limit, 100, 100))).tokens == 100
    lab.advance(100)
    assert (await alive.peek()).remaining == 1000
