"""Peers that keep their buckets in the store, and the floor under all of them. Each as its documentation uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.case import Spend

__all__ = ["CLASSIC", "glide_script", "limits_redis", "redis_py_script", "return_one", "throttled_redis"]

CAPACITY = 1_000_000
RATE = CAPACITY / 60
CLASSIC = Path(__file__).parent / "scripts" / "classic.lua"


@asynccontextmanager
async def limits_redis(store: str) -> AsyncIterator[Spend]:
    """limits: fixed window."""
    from limits import parse
    from limits.aio.storage import RedisStorage
    from limits.aio.strategies import FixedWindowRateLimiter

    storage = RedisStorage(f"async+redis://{store}", implementation="redispy")
    hit, item = FixedWindowRateLimiter(storage).hit, parse("1000000/minute")

    async def spend(clients: Sequence[str]) -> None:
        for client in clients:
            await hit(item, client)

    yield spend
    await storage.bridge.storage.aclose()


@asynccontextmanager
async def throttled_redis(store: str) -> AsyncIterator[Spend]:
    """throttled-py: token bucket."""
    from throttled.asyncio import RateLimiterType, Throttled, per_min
    from throttled.asyncio.store import RedisStore

    shared = RedisStore(server=f"redis://{store}/0")
    quota = per_min(1_000_000, burst=1_000_000)
    limit = Throttled(using=RateLimiterType.TOKEN_BUCKET.value, quota=quota, store=shared).limit

    async def spend(clients: Sequence[str]) -> None:
        for client in clients:
            await limit(client)

    yield spend
    await shared._backend.get_client().aclose()


@asynccontextmanager
async def redis_py_script(store: str) -> AsyncIterator[Spend]:
    """redis-py and the classic script, with nothing around it."""
    from redis.asyncio import Redis

    host, _, port = store.partition(":")
    async with Redis(host=host, port=int(port)) as redis:
        digest = await redis.script_load(CLASSIC.read_text())
        evalsha = redis.evalsha

        async def spend(clients: Sequence[str]) -> None:
            for client in clients:
                await evalsha(digest, 1, client, RATE, CAPACITY, 1)

        yield spend


@asynccontextmanager
async def glide_script(store: str) -> AsyncIterator[Spend]:
    """valkey-glide and the classic script, with nothing around it."""
    from glide import GlideClient, GlideClientConfiguration, NodeAddress, Script

    host, _, port = store.partition(":")
    client = await GlideClient.create(GlideClientConfiguration([NodeAddress(host, int(port))]))
    script, invoke, arguments = Script(CLASSIC.read_text()), client.invoke_script, [str(RATE), str(CAPACITY), "1"]

    async def spend(clients: Sequence[str]) -> None:
        for name in clients:
            await invoke(script, keys=[name], args=arguments)

    yield spend
    await client.close()


@asynccontextmanager
async def return_one(store: str) -> AsyncIterator[Spend]:
    """The floor: a script that does nothing, through the link that Limen uses."""
    from limen.stores.valkey.connect import open_link
    from limen.stores.valkey.url import parse_endpoint

    link = await open_link(parse_endpoint(f"valkey://{store}"), 5.0, 5.0)
    loaded = await link.ask(b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$8\r\nreturn 1\r\n")
    command = b"*3\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n0\r\n" % loaded
    ask = link.ask

    async def spend(clients: Sequence[str]) -> None:
        for _ in clients:
            await ask(command)

    yield spend
    link.close()
