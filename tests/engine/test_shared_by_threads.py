"""What a process knows by itself is shared by its threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Barrier

from limen.core.limit import Limit
from limen.engine.local import DenyCache, LocalShares
from limen.stores.base import Op
from limen.testing import ManualClock

THREADS = 8
LIMIT = Limit(10, Fraction(1))


def together(work: Callable[[int], None]) -> None:
    """Let threads begin at once; what one of them raises is raised here."""
    barrier = Barrier(THREADS)

    def begin(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(begin, number) for number in range(THREADS)]:
            done.result()


def test_refusals_are_remembered_looked_up_and_forgotten_at_once() -> None:
    cache = DenyCache(max_entries=50)

    def work(number: int) -> None:
        for step in range(3000):
            op = Op(f"client={step % 97}", f"r{number % 2}", LIMIT, 1)
            cache.remember(op, 0, step * 100)
            cache.seen((op.identity, op.rule), LIMIT, 1, step * 100)
            if step % 100 == 0:
                cache.forget(op.identity, None, 0)

    together(work)
    assert 0 < len(cache) <= 50 + THREADS


def test_the_share_of_a_gateway_is_spent_once() -> None:
    clock = ManualClock()
    shares = LocalShares(clock.now_us, 1)
    shares.START = Fraction(1)
    wide = Limit(1000, Fraction(1, 10**6))
    taken = [0] * THREADS

    def work(number: int) -> None:
        op = Op("client=acme", "r", wide, 1)
        for _ in range(500):
            (part,) = shares.parts([op])
            (level,) = shares.take([part], clock.now_us())
            taken[number] += part.limit.allows(level, 1)

    together(work)
    assert sum(taken) == 1000
