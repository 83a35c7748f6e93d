"""One limiter, made once and used from several event loops: one after another, at the same time, and never started."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import redis

from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule

RULES = [Rule("r", limit="60/day")]
PATIENT_MS = 20_000


async def checks(limiter: AsyncLimiter, count: int) -> list[Decision]:
    return [await limiter.check("acme", "r") for _ in range(count)]


@pytest.fixture
def limiter(valkey_url: str) -> AsyncLimiter:
    return AsyncLimiter(valkey_url, RULES, deadline_ms=PATIENT_MS)


def test_CC_08_one_loop_after_another(limiter: AsyncLimiter) -> None:
    for at in range(3):
        [decision] = asyncio.run(checks(limiter, 1))
        assert (decision.source, decision.remaining) == ("store", 59 - at)


def test_CC_08_two_loops_at_a_time(limiter: AsyncLimiter, valkey_url: str) -> None:
    together = Barrier(2)

    def thread() -> list[Decision]:
        together.wait(20)
        return asyncio.run(checks(limiter, 50))

    with ThreadPoolExecutor(2) as threads:
        found = [each for future in [threads.submit(thread) for _ in range(2)] for each in future.result(60)]
    assert sum(each.allowed for each in found) == 60
    assert not any(each.degraded for each in found)
    with redis.Redis.from_url(valkey_url.replace("valkey", "redis")) as store:
        assert not [each for each in store.client_list() if each["name"] == "limen"], "no connection is left behind"


def test_CC_08_two_loops_of_one_thread_in_turns(limiter: AsyncLimiter) -> None:
    loops = [asyncio.new_event_loop() for _ in range(2)]
    try:
        left = [loops[at % 2].run_until_complete(checks(limiter, 1))[0].remaining for at in range(6)]
        assert left == [59, 58, 57, 56, 55, 54]
    finally:
        for loop in loops:
            loop.run_until_complete(limiter.close())
            loop.close()


def test_CC_08_started_and_closed_on_each_loop(limiter: AsyncLimiter) -> None:
    async def session() -> str:
        async with limiter:
            assert limiter.store_state == "up"
            return (await limiter.check("acme", "r")).source

    assert [asyncio.run(session()) for _ in range(3)] == ["store"] * 3
    assert limiter.store_state == "down"


async def test_the_first_questions_wait_together_for_a_limiter_that_nobody_started(limiter: AsyncLimiter) -> None:
    found = await asyncio.gather(*(limiter.check("acme", "r") for _ in range(50)))
    assert {each.source for each in found} == {"store"}
    assert limiter._store.node.connections == 1
    await limiter.close()
