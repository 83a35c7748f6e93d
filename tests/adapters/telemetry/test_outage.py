"""A store that goes away and comes back, as the metrics and the log of a process tell it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule

RULES = [Rule("open", limit="1000/minute"), Rule("login", limit="1000/minute", tags=["auth"])]


def read(observer: PrometheusObserver, name: str, **labels: str) -> float:
    """One series, or the sum of those that have these labels."""
    families = text_string_to_metric_families(observer.render().decode())
    found = [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return sum(found)


async def test_an_outage_is_told_while_it_lasts_and_when_it_is_over(
    own_valkey: Any, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shard, observer = f"127.0.0.1:{own_valkey.port}", PrometheusObserver()
    limiter = AsyncLimiter(f"valkey://{shard}", RULES, observer=observer, deadline_ms=1000)

    async def source(rule: str) -> str:
        return (await limiter.check("acme", rule)).source

    async with limiter:
        observer.watch(limiter)
        watching = asyncio.create_task(observer.keep_watch())
        assert (await source("open"), await source("login")) == ("store", "store")
        assert read(observer, "limen_breaker_state", shard=shard) == 0
        own_valkey.stop()
        await until(lambda: read(observer, "limen_breaker_state", shard=shard) == 1)
        assert (await source("open"), await source("login")) == ("local_share", "none")
        assert (await limiter.check("acme", "open", cost=90)).allowed  # more than grows back until it is settled
        for rule in ("open", "login"):
            assert read(observer, "limen_degraded", rule=rule) == 1
        assert read(observer, "limen_store_errors_total", shard=shard) >= 2
        assert read(observer, "limen_decisions_total", rule="login", outcome="unavailable") == 1
        await until(lambda: "decided without the store now: rules open, login" in caplog.text)
        own_valkey.start()
        await until(lambda: read(observer, "limen_breaker_state", shard=shard) == 0)
        while (await source("open"), await source("login")) != ("store", "store"):
            await asyncio.sleep(0.01)  # the pace of looking, not a wait for time
        for rule in ("open", "login"):
            assert read(observer, "limen_degraded", rule=rule) == 0
        await until(lambda: read(observer, "limen_settlements_total") >= 1)
        await until(lambda: "decided with the store again: " in caplog.text)
        await until(lambda: f"{shard} decides again after " in caplog.text)
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
