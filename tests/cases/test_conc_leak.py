"""Public faults of concurrency limits, none of which is ours. Each test is named after its case."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from limen import AsyncLimiter, Limiter, Rule
from limen.core.concurrency import SlotLimit
from limen.engine.async_slot import AsyncSlot
from limen.stores.base import Slot
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from limen.testing import ManualClock
from tests.slots import enter, leave, renew, slot_of, tried

Until = Callable[[Callable[[], object]], Awaitable[None]]
SHARED = pytest.mark.parametrize("lab", ["Valkey", "Limiter, Valkey"], indirect=True)
FOR_COROUTINES = pytest.mark.parametrize("lab", ["AsyncLimiter", "Valkey"], indirect=True)
HOLDS_TWO_FOR_EVER = """
import sys, time
from limen import Limiter, Rule
limiter = Limiter(sys.argv[1], [Rule("r", limit="2 concurrent for 2s")], deadline_ms=20_000)
with limiter.slot("acme", "r") as one, limiter.slot("acme", "r") as two:
    print(one.decision.source, two.decision.source, flush=True)
    while one.renew() and two.renew():
        time.sleep(0.1)
"""


async def test_CL_01_slots_of_a_holder_that_died_lapse(lab: Any) -> None:
    door = await lab.open("2 concurrent for 30s")
    assert [(await enter(door)).allowed for _ in range(2)] == [True, True]
    lab.at(29)
    denied = await tried(door)
    assert (denied.allowed, denied.retry_after_ms) == (False, 1000)
    lab.at(31)
    assert (await tried(door)).allowed
    if lab.redis is not None:
        assert lab.stored() == []  # and that a key that is left has an end is looked at after each test


async def test_CL_01_slots_of_a_killed_process_lapse(valkey_url: str, until: Until) -> None:
    rule = Rule("r", limit="2 concurrent for 2s")
    with holder_of_two(valkey_url) as holder, Limiter(valkey_url, [rule], deadline_ms=20_000) as limiter:
        with limiter.slot("acme", "r") as slot:
            assert (slot.allowed, slot.decision.source) == (False, "store")
        holder.kill()
        await until(lambda: both_free(limiter))


@contextmanager
def holder_of_two(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds both slots, until it is killed."""
    command = [sys.executable, "-c", HOLDS_TWO_FOR_EVER, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "store store\n"
            yield holder
        finally:
            holder.kill()


def both_free(limiter: Limiter) -> bool:
    with limiter.slot("acme", "r") as slot:
        return slot.allowed and slot.decision.remaining == 1


@SHARED
async def test_CL_02_a_failed_release_costs_one_lease_and_no_more(lab: Any) -> None:
    door = await lab.open("1 concurrent for 30s")
    random, failed = Random(2), 0
    for _ in range(1000):
        async with slot_of(door) as slot:
            assert (slot.allowed, slot.decision.source) == (True, "store")
            if fails := random.random() < 0.1:
                lab.redis.config_set("min-replicas-to-write", 1)  # the store refuses every change from now on
        if fails:
            failed += 1
            lab.redis.config_set("min-replicas-to-write", 0)
            assert (await tried(door)).retry_after_ms == 30_000
            lab.advance(30)
    assert failed > 50
    assert (await tried(door)).remaining == 0
    assert lab.stored() == []


@FOR_COROUTINES
@pytest.mark.parametrize("again", [False, True])
async def test_CL_04_a_cancelled_task_holds_nothing(lab: Any, again: bool) -> None:
    door = await lab.open("1 concurrent")
    held = 0
    for steps in range(40):
        entered = asyncio.Event()
        task = asyncio.create_task(works_for_ever(door, entered))
        for _ in range(steps):
            await asyncio.sleep(0)
        held += entered.is_set()
        await cancelled(task, again)
        lab.advance(1)
        await frees(door)
    assert 0 < held < 40


@FOR_COROUTINES
async def test_CL_04_a_task_that_is_cancelled_at_its_work_is_over_when_its_slot_is_free(lab: Any) -> None:
    door = await lab.open("1 concurrent")
    for _ in range(10):
        entered = asyncio.Event()
        task = asyncio.create_task(works_for_ever(door, entered))
        await entered.wait()
        await cancelled(task, again=False)
        assert (await tried(door)).allowed


async def works_for_ever(door: Any, entered: asyncio.Event) -> None:
    async with slot_of(door) as slot:
        assert slot.allowed
        entered.set()
        await asyncio.Event().wait()


async def cancelled(task: asyncio.Task[None], again: bool) -> None:
    """Cancel it once, or whenever it waits for something until it has ended."""
    task.cancel()
    while again and not task.done():
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task], timeout=20)
    assert task.cancelled()


async def frees(door: Any) -> None:
    """The slot can be had again: at once, or when a release that nobody waited for has arrived."""
    async with asyncio.timeout(20):
        while not (await tried(door)).allowed:
            await asyncio.sleep(0)


class NeverReleases(AsyncMemoryStore):
    """A store of somebody's own that hangs."""

    async def release(self, slot: Slot) -> bool:
        await asyncio.Event().wait()
        return False


async def test_CL_04_a_block_ends_also_when_its_release_does_not(clock: ManualClock) -> None:
    store = NeverReleases(MemoryStore(clock.now_us))
    async with asyncio.timeout(20):
        limiter = AsyncLimiter(store, [Rule("r", limit="1 concurrent for 30s")], clock=clock)
        async with limiter, limiter.slot("acme", "r") as slot:
            assert slot.allowed


class Stop(BaseException):
    """Not an error that anybody catches."""


@pytest.mark.parametrize("raised", [RuntimeError, TimeoutError, Stop, KeyboardInterrupt, GeneratorExit])
async def test_CL_05_whatever_ends_a_block_ends_its_slot(lab: Any, raised: type[BaseException]) -> None:
    door = await lab.open("1 concurrent")
    slot = door.limiter.slot("acme", "r0")
    with pytest.raises(raised):
        await raising(slot, raised)
    assert (await tried(door)).allowed


async def raising(slot: Any, error: type[BaseException]) -> None:
    if isinstance(slot, AsyncSlot):
        async with slot:
            raise error
    with slot:
        raise error


async def test_CL_05_a_block_that_returns_early_or_is_timed_out_ends_its_slot(lab: Any) -> None:
    door = await lab.open("1 concurrent")
    assert await returns(door) == 204
    assert (await tried(door)).allowed
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0), slot_of(door):
            await asyncio.Event().wait()
    assert (await tried(door)).allowed


async def returns(door: Any) -> int:
    async with slot_of(door) as slot:
        if slot.allowed:
            return 204
    return 429


@pytest.mark.parametrize("lab", ["Limiter", "Limiter, Valkey"], indirect=True)
async def test_CL_05_a_thread_that_exits_ends_its_slot(lab: Any) -> None:
    door = await lab.open("1 concurrent")
    with ThreadPoolExecutor(1) as worker:
        assert isinstance(worker.submit(exits, door.limiter).exception(20), SystemExit)
    assert (await tried(door)).allowed


def exits(limiter: Limiter) -> None:
    with limiter.slot("acme", "r0"):
        sys.exit("enough")


async def test_CL_07_a_holder_that_renews_keeps_its_slot(lab: Any) -> None:
    door = await lab.open("1 concurrent for 20s")
    async with slot_of(door) as first:
        for second in range(5, 50, 5):
            lab.at(second)
            assert await renew(first)
            assert not (await tried(door)).allowed
    assert not first.lost
    assert (await tried(door)).allowed


async def test_CL_07_a_holder_that_outlived_its_lease_takes_nothing_from_the_next(lab: Any) -> None:
    door = await lab.open("1 concurrent for 20s")
    first = await enter(door)
    lab.at(30)
    second = await enter(door)
    assert (first.lost, second.allowed) == (True, True)
    lab.at(45)
    assert await renew(second)
    lab.at(50)
    await leave(first)
    assert not (await tried(door)).allowed
    await leave(second)
    assert (await tried(door)).allowed


async def test_CL_08_what_is_released_twice_or_by_others_counts_once(lab: Any) -> None:
    door = await lab.open("1 concurrent")
    slot = await enter(door)
    await leave(slot)
    await leave(slot)
    unknown = Slot("client=acme", "r0", SlotLimit(1), "nobody")
    assert not await released(door.limiter, unknown)
    async with slot_of(door) as first, slot_of(door) as second:
        assert not await released(door.limiter, unknown)
        assert [each.allowed for each in (first, second)] == [True, False]
        assert not (await tried(door)).allowed


async def released(limiter: Limiter | AsyncLimiter, slot: Slot) -> bool:
    return limiter.store.release(slot) if isinstance(limiter, Limiter) else await limiter._store.release(slot)
