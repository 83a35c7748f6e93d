"""Peers that decide in this process, and the floors under all of them. Each as its documentation uses it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bench.case import Spend

__all__ = [
    "aiolimiter_bucket", "clock_read", "gcra_by_hand", "limits_fixed", "limits_sliding", "pyrate", "throttled_memory",
]  # fmt: skip

LIMIT = "1000000/minute"


@asynccontextmanager
async def limits_fixed(_: str) -> AsyncIterator[Spend]:
    """limits: fixed window."""
    from limits.strategies import FixedWindowRateLimiter

    yield _hitting(FixedWindowRateLimiter)


@asynccontextmanager
async def limits_sliding(_: str) -> AsyncIterator[Spend]:
    """limits: sliding window counter."""
    from limits.strategies import SlidingWindowCounterRateLimiter

    yield _hitting(SlidingWindowCounterRateLimiter)


def _hitting(strategy: Callable[[Any], Any]) -> Spend:
    from limits import parse
    from limits.storage import MemoryStorage

    hit, item = strategy(MemoryStorage()).hit, parse(LIMIT)

    async def spend(clients: Sequence[str]) -> None:
        for client in clients:
            hit(item, client)

    return spend


@asynccontextmanager
async def throttled_memory(_: str) -> AsyncIterator[Spend]:
    """throttled-py: token bucket."""
    from throttled import Throttled, per_min
    from throttled.store import MemoryStore

    quota = per_min(1_000_000, burst=1_000_000)
    limit = Throttled(using="token_bucket", quota=quota, store=MemoryStore()).limit

    async def spend(clients: Sequence[str]) -> None:
        for client in clients:
            limit(client)

    yield spend


@asynccontextmanager
async def pyrate(_: str) -> AsyncIterator[Spend]:
    """pyrate-limiter: its default bucket, one for all clients."""
    from pyrate_limiter import Duration, Limiter, Rate

    limiter = Limiter(Rate(1_000_000, Duration.MINUTE))
    try_acquire = limiter.try_acquire

    async def spend(clients: Sequence[str]) -> None:
        for client in clients:
            try_acquire(client, blocking=False)

    yield spend
    limiter.close()


@asynccontextmanager
async def aiolimiter_bucket(_: str) -> AsyncIterator[Spend]:
    """aiolimiter: one leaky bucket, no keys."""
    from aiolimiter import AsyncLimiter

    acquire = AsyncLimiter(1_000_000_000, 60).acquire

    async def spend(clients: Sequence[str]) -> None:
        for _ in clients:
            await acquire()

    yield spend


@asynccontextmanager
async def clock_read(_: str) -> AsyncIterator[Spend]:
    """A floor: reading the clock."""
    read = time.monotonic_ns

    async def spend(clients: Sequence[str]) -> None:
        for _ in clients:
            read()

    yield spend


@asynccontextmanager
async def gcra_by_hand(_: str) -> AsyncIterator[Spend]:
    """A floor: GCRA in a dictionary that grows for ever, for one thread, answering yes or no."""
    arrivals: dict[str, int] = {}
    read, interval_ns, tolerance_ns = time.monotonic_ns, 60_000, 60_000_000_000

    def check(client: str) -> bool:
        now = read()
        arrival = max(arrivals.get(client, now), now)
        if arrival - now > tolerance_ns:
            return False
        arrivals[client] = arrival + interval_ns
        return True

    async def spend(clients: Sequence[str]) -> None:
        for client in clients:
            check(client)

    yield spend
