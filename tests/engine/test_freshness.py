"""A process that was stopped for long reads its rules anew before it decides by them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from limen import AsyncLimiter, Rule
from limen.testing import ManualClock

Until = Callable[[Callable[[], object]], Awaitable[None]]
STRICT, LOOSE = [Rule("r", limit="1/minute")], [Rule("r", limit="100/minute")]


async def test_the_first_decision_after_a_stop_is_by_the_new_rules(until: Until) -> None:
    clock, refreshed = ManualClock(), 0

    async def refresh() -> None:
        nonlocal refreshed
        refreshed += 1
        await asyncio.sleep(0)
        limiter.use_rules(STRICT)

    async with AsyncLimiter("memory://", LOOSE, clock=clock) as limiter:
        limiter.follow(refresh, 10)
        assert (await limiter.check("acme", "r")).remaining == 99
        clock.advance(34)  # looks come late now and then
        await asyncio.sleep(0)
        assert (await limiter.check("other", "r")).remaining == 99
        clock.advance(2)
        await until(lambda: limiter._freshness.in_doubt)
        found = await asyncio.gather(*(limiter.check(f"c{number}", "r") for number in range(10)))
        assert {each.remaining for each in found} == {0}
        assert refreshed == 1


async def test_who_looks_in_vain_is_no_stopped_process(until: Until) -> None:
    """The database is away: the last rules are good, and nobody waits."""
    clock = ManualClock()

    async def refresh() -> None:
        raise AssertionError("nobody was stopped")

    async with AsyncLimiter("memory://", LOOSE, clock=clock) as limiter:
        limiter.follow(refresh, 10)
        for _ in range(20):
            clock.advance(30)
            limiter.looked()
            limiter._freshness._on_tick()
            assert (await limiter.check("acme", "r")).allowed


async def test_rules_that_cannot_be_read_hold_nobody_up_for_longer_than_a_second(until: Until) -> None:
    clock = ManualClock()
    waits = asyncio.Event()

    async def refresh() -> None:
        await waits.wait()

    async with AsyncLimiter("memory://", LOOSE, clock=clock) as limiter:
        limiter.follow(refresh, 10)
        clock.advance(60)
        await until(lambda: limiter._freshness.in_doubt)
        assert (await limiter.check("acme", "r")).allowed
        assert not limiter._freshness.in_doubt


async def test_rules_in_a_file_are_followed_so(tmp_path: Path, until: Until) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("rules: [{id: r, limit: 100/minute}]")
    clock = ManualClock()
    async with AsyncLimiter("memory://", file.as_uri(), clock=clock) as limiter:
        assert (await limiter.check("acme", "r")).remaining == 99
        watcher = limiter._rules_source._watchers[0]  # type: ignore[union-attr]
        await watcher.stop()  # nobody looks any more
        looked_at = watcher.last_look
        clock.advance(60)
        await until(lambda: limiter._freshness.in_doubt)
        assert watcher.last_look == looked_at
        await limiter.check("acme", "r")
        assert watcher.last_look != looked_at, "the decision has waited for a look"
        assert not limiter._freshness.in_doubt
