"""A cluster of which one node forgets; and slots that move, which are not forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.rules.model import Rule
from limen.stores.valkey.topology import slot_of
from tests.topologies.servers import Cluster, Server, wait_for

Opened = Callable[..., Awaitable[AsyncLimiter]]
Until = Callable[[Callable[[], object]], Awaitable[None]]
RULES = [Rule("r", capacity=100, refill_per_sec=0)]
CLIENTS = [f"c{at}" for at in range(60)]


def owner(cluster: Cluster, limiter: Any, client: str) -> Server:
    store = limiter._store if isinstance(limiter, AsyncLimiter) else limiter.store
    return cluster.owner(slot_of(store._commands.names.key("client=" + client)))


async def test_a_mark_goes_with_its_slot(cluster: Cluster, opened: Opened, until: Until) -> None:
    limiter = await opened(cluster.url, RULES)
    store = limiter._store
    assert len(store.memory.marks) == 3
    number = next(iter(store.memory.marks))
    target = next(each for each in cluster.primaries if each is not cluster.owner(number))
    source = cluster.half_move(number, target)
    cluster.move_keys(number, source, target)
    cluster.end_move(number, target)
    store.cluster.doubt()
    await until(lambda: store.cluster.node_of(number).endpoint.port == target.port)
    await until(lambda: len(store.memory.marks) == 4)
    assert not store.memory_lost
    assert {(await limiter.check(client, "r")).remaining for client in CLIENTS} == {99}


@pytest.mark.parametrize("kind", [AsyncLimiter, Limiter])
async def test_one_node_that_comes_back_empty_is_found_out(
    family: str, tmp_path: Path, until: Until, kind: Any
) -> None:
    cluster = Cluster(family, tmp_path)
    try:
        wait_for(cluster.agrees, "all nodes agree")
        limiter = kind(cluster.url, RULES, deadline_ms=20_000)
        asked = limiter.start()
        if asked is not None:
            await asked
        lost = owner(cluster, limiter, CLIENTS[0])
        lost.kill()
        await until(lambda: limiter.store_state == "down" or limiter.store_shards.get(lost.address) == "down")
        lost.start()
        wait_for(cluster.agrees, "all nodes agree")
        await until(lambda: set(limiter.store_shards.values()) == {"up"})
        left = {client: await peeked(limiter, client) for client in CLIENTS}
        theirs = {client for client in CLIENTS if owner(cluster, limiter, client) is lost}
        assert {left[client] for client in theirs} == {10}
        assert {left[client] for client in set(CLIENTS) - theirs} == {100}
        assert dict(limiter.memory_lost) == {lost.address: 1}
        ended = limiter.close()
        if ended is not None:
            await ended
    finally:
        cluster.stop()


async def peeked(limiter: Any, client: str) -> int | None:
    asked = limiter.peek(client, "r")
    decision = await asked if isinstance(limiter, AsyncLimiter) else asked
    assert decision.source == "store"
    remaining: int | None = decision.remaining
    return remaining
