"""Buckets in this process: exact under threads, bounded, and fair to whoever is held back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from limen.core.carry import Carry
from limen.core.limit import Limit
from limen.engine.limiter import Limiter
from limen.errors import UsageError
from limen.rules.model import Rule
from limen.stores.base import Op
from limen.stores.memory import MemoryStore
from limen.stores.memory_cells import TIDY_FROM
from limen.testing import ManualClock

THREADS = 16
HOUR = Limit(5, Fraction(5, 3600))


def op(client: str, limit: Limit = HOUR, cost: int = 1, rule: str = "r") -> Op:
    return Op(client, rule, limit, cost)


@pytest.mark.parametrize("attempt", range(10))
def test_CC_04_threads_that_start_together_respect_the_limit_exactly(attempt: int) -> None:
    barrier = threading.Barrier(THREADS)
    with Limiter(rules=[Rule("r", limit="1000/day")]) as limiter:

        def work(_: int) -> int:
            barrier.wait()
            return sum(limiter.check("acme", "r").allowed for _ in range(100))

        with ThreadPoolExecutor(THREADS) as pool:
            assert sum(pool.map(work, range(THREADS))) == 1000


def test_CC_05_sweeping_disturbs_no_caller() -> None:
    clock, done = ManualClock(), threading.Event()
    store = MemoryStore(clock.now_us)
    fast, once = Limit(5, Fraction(1000)), Limit(5, Fraction(0))

    def sweep() -> None:
        while not done.is_set():
            clock.advance(0.001)
            store.sweep()

    def work(number: int) -> bool:
        for at in range(600):
            client = f"{(number + at) % 100}"
            store.take_one((client, "r"), fast, fast.token_ticks)
            store.take([op(client, fast), op(client, once, 1, "s")])
        return True

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    done.set()
    sweeper.join()
    assert [store.take([op(f"{number}", once, 0, "s")]) for number in range(100)] == [[0]] * 100


def test_CC_10_hits_of_one_instant_count_one_by_one() -> None:
    store = MemoryStore(ManualClock().now_us)
    levels = [store.take([op("acme")])[0] // HOUR.token_ticks for _ in range(10)]
    assert levels == [5, 4, 3, 2, 1, 0, 0, 0, 0, 0]


def test_a_full_map_lets_go_of_who_is_held_back_least() -> None:
    clock = ManualClock()
    store = MemoryStore(clock.now_us, max_buckets=100)
    for number in range(10):
        store.take([op(f"spent-{number}", cost=5)])
    for number in range(10_000):
        store.take([op(f"passing-{number}")])
        assert len(store) <= 100
    assert all(store.take([op(f"spent-{number}")])[0] == 0 for number in range(10))


def test_a_quota_that_never_refills_goes_last() -> None:
    store = MemoryStore(ManualClock().now_us, max_buckets=50)
    once = Limit(5, Fraction(0))
    store.take([op("spent", once, 5)])
    for number in range(5000):
        store.take([op(f"passing-{number}", cost=5)])
    assert store.take([op("spent", once)]) == [0]


def test_a_map_that_is_not_small_tidies_itself_up() -> None:
    clock = ManualClock()
    store = MemoryStore(clock.now_us)
    for number in range(2 * TIDY_FROM):
        store.take([op(f"old-{number}")])
    clock.advance(3601)
    for number in range(2 * TIDY_FROM):
        store.take([op(f"new-{number}")])
    assert len(store) <= 2 * TIDY_FROM + 2


def test_sweeping_drops_what_is_full_and_nothing_else() -> None:
    clock = ManualClock()
    store = MemoryStore(clock.now_us)
    store.take([op("one", cost=1)])
    store.take([op("five", cost=5)])
    store.take([op("once", Limit(5, Fraction(0)), 1)])
    clock.advance(720)
    store.sweep()
    assert len(store) == 2
    clock.advance(2880)
    store.sweep()
    assert len(store) == 1
    clock.advance(31 * 86_400)
    store.sweep()
    assert len(store) == 0


def test_a_refused_request_and_a_look_leave_no_bucket() -> None:
    store = MemoryStore(ManualClock().now_us)
    store.take([op("a", cost=0)])
    store.take([op("a", cost=6)])
    store.take_one(("a", "r"), HOUR, 0)
    store.take_one(("a", "r"), HOUR, HOUR.full_ticks + 1)
    assert len(store) == 0


def test_a_bucket_that_begins_with_a_part_fills_up_also_while_it_refuses() -> None:
    clock = ManualClock()
    store = MemoryStore(clock.now_us)
    part = Limit(5, Fraction(1), Fraction(1, 10))
    assert store.take([op("a", part)]) == [part.token_ticks // 2]
    clock.advance(0.25)
    assert store.take([op("a", part)]) == [part.token_ticks * 3 // 4]
    clock.advance(0.25)
    assert store.take([op("a", part)]) == [part.token_ticks]
    assert store.take([op("a", part, 0)]) == [0]


def test_closing_forgets_everything() -> None:
    with Limiter(rules=[Rule("r", limit="1/hour")], clock=ManualClock()) as limiter:
        limiter.check("acme", "r")
    assert limiter.check("acme", "r").allowed


def test_a_store_with_room_for_nobody_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        MemoryStore(lambda: 0, max_buckets=0)


def test_marks_of_buckets_that_moved_to_a_new_limit_do_not_pile_up(clock: ManualClock) -> None:
    store = MemoryStore(clock.now_us)
    before, after = Limit(10, Fraction(1)), Limit(20, Fraction(1))
    carry = Carry(2, "reset", before, clock.now_us() + 60_000_000)
    for number in range(1000):
        store.take([Op(f"client {number}", "r", after, 1, carry=carry)])
    assert len(store._stamps) == 1000
    clock.advance(seconds=61)
    moving = carry._replace(generation=3, until_us=clock.now_us() + 60_000_000)
    for number in range(1000):
        store.take([Op(f"another {number}", "r", after, 1, carry=moving)])
    assert len(store._stamps) <= 1001
