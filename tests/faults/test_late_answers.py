"""Gateways that are answered late for a moment, one after the other, the others not: no outage, no breaker."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from random import Random

from limen import AsyncLimiter, Rule
from limen.rules.bound import bound_of
from limen.testing import FaultProxy, IntervalChecker
from limen.testing.servers import Server

RULE = Rule("api", limit="20/second burst 100")
GATEWAYS = 4
SECONDS = 6.0
DEADLINE_MS = 40
"""Longer than what a busy machine makes late by itself."""
HICCUP_S, BETWEEN_S = 0.08, 0.25
QUESTIONS_PER_S = 30
"""To each gateway, all about one client: six times its limit, and too few in a hiccup to open a breaker."""


class Hot:
    """One client that asks everybody."""

    def __init__(self) -> None:
        self.checker = IntervalChecker(RULE)
        self.admitted: Counter[str] = Counter()
        self._end = time.monotonic() + SECONDS

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self._end

    async def ask_on(self, limiter: AsyncLimiter) -> None:
        async with asyncio.TaskGroup() as asked:
            while self.goes_on:
                asked.create_task(self._ask(limiter))
                await asyncio.sleep(1 / QUESTIONS_PER_S)

    async def _ask(self, limiter: AsyncLimiter) -> None:
        invoked_us = time.monotonic_ns() // 1000
        found = await limiter.check("acme", RULE.id)
        if found.allowed:
            self.admitted[found.source] += 1
            self.checker.admitted("acme", 1, invoked_us, time.monotonic_ns() // 1000)


async def hiccups(proxies: Sequence[FaultProxy], hot: Hot) -> None:
    chance = Random(1)
    while hot.goes_on:
        await asyncio.sleep(BETWEEN_S)
        late = chance.choice(proxies)
        late.delay(HICCUP_S)
        await asyncio.sleep(HICCUP_S)
        late.heal()


async def test_answers_that_are_late_now_and_then_let_a_hot_client_have_no_more_than_the_bound(
    server: Server,
) -> None:
    """What was let through instead is paid for, though the bucket of such a client is always empty."""
    async with AsyncExitStack() as opened, asyncio.TaskGroup() as running:
        proxies = [await opened.enter_async_context(FaultProxy(server.url)) for _ in range(GATEWAYS)]
        limiters = [
            await opened.enter_async_context(
                AsyncLimiter(proxy.url, [RULE], gateways=GATEWAYS, deadline_ms=DEADLINE_MS)
            )
            for proxy in proxies
        ]
        hot = Hot()
        asking = [running.create_task(hot.ask_on(limiter)) for limiter in limiters]
        await asyncio.gather(hiccups(proxies, hot), *asking)
    assert hot.admitted["local_share"] > SECONDS, "late answers were felt"
    assert hot.admitted["store"] > hot.admitted["local_share"]
    bound = bound_of(RULE, GATEWAYS)
    assert bound
    hot.checker.check(bound_tokens=bound.tokens + bound.untold)
