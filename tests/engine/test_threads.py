"""What a process remembers by itself is shared by its threads, and by nobody across a fork."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from fractions import Fraction

import pytest

from limen import Limiter, Rule
from limen.core.limit import Limit
from limen.engine.deny_cache import DenyCache
from limen.engine.fleet import Fleet
from limen.engine.local_shares import LocalShares
from limen.stores.base import Op
from limen.stores.memory import MemoryStore
from limen.testing import ManualClock
from tests.stores.valkey.sync_lab import in_threads

LIMIT = Limit(1, Fraction(1, 86_400))


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_threads_that_remember_and_forget_refusals_disturb_nobody() -> None:
    cache = DenyCache(max_entries=50)

    def work(number: int) -> None:
        for turn in range(3000):
            client = f"c{(number * 7919 + turn) % 200}"
            cache.remember(Op(client, "r", LIMIT, 1), 0, turn * 1000)
            cache.seen((client, "r"), LIMIT, 1, turn * 1000)
            if turn % 50 == number:
                cache.forget(client, None, 0)
            if turn % 500 == number:
                cache.clear()

    in_threads(6, work)
    assert len(cache) <= 50


def test_a_refusal_that_was_under_way_while_somebody_forgave_is_not_remembered() -> None:
    cache = DenyCache()
    cache.forget("acme", "r", 1_000)
    cache.remember(Op("acme", "r", LIMIT, 1), 0, 999)
    assert cache.seen(("acme", "r"), LIMIT, 1, 1_001) is None
    cache.remember(Op("acme", "r", LIMIT, 1), 0, 1_001)
    assert cache.seen(("acme", "r"), LIMIT, 1, 1_002) is not None


def test_a_child_of_a_process_whose_threads_are_busy_decides() -> None:
    """The fork comes while others hold the locks of what is remembered."""
    limiter = Limiter(rules=[Rule("r", limit="1000/day")])
    assert isinstance(limiter.store, MemoryStore)
    with limiter.store._lock, limiter._denied._lock:
        child = os.fork()
        if not child:
            status = 1
            try:
                assert limiter.check("acme", "r").allowed
                limiter._denied.clear()
                status = 0
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.usefixtures("hasty")
def test_the_share_of_a_gateway_is_spent_once() -> None:
    clock = ManualClock()
    shares = LocalShares(clock.now_us, Fleet(1, clock.now_us))
    wide = Limit(10_000, Fraction(1, 86_400))  # a share begins with a tenth of it
    taken = [0] * 8

    def work(number: int) -> None:
        for _ in range(500):
            (part,) = shares.parts([Op("client=acme", "r", wide, 1)])
            (level,) = shares.take([part], clock.now_us())
            taken[number] += part.limit.allows(level, 1)

    in_threads(8, work)
    assert sum(taken) == 1000
