"""A cluster that loses a primary, or changes it on purpose: the others go on, and its replica takes over."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

import limen.stores.valkey.cluster
from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.stores.valkey.endpoint import Address
from limen.stores.valkey.topology import slot_of
from tests.topologies.servers import Cluster, Server, wait_for

Opened = Callable[..., Awaitable[AsyncLimiter]]
Until = Callable[[Callable[[], object]], Awaitable[None]]
CAPACITY = 1000
RULES = [Rule("r", limit=f"{CAPACITY}/day"), Rule("closed", limit="1000/day", on_failure="closed")]
CLIENTS = [f"c{at}" for at in range(100)]


@pytest.fixture(scope="module")
def replicated(family: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(family, tmp_path_factory.mktemp("replicated"), replicas=1)
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(replicated: Cluster) -> Cluster:
    """Three primaries and three replicas, in step. The test that breaks it comes last."""
    wait_for(replicated.agrees, "all nodes agree")
    wait_for(replicated.in_step, "every replica is in step")
    return replicated


def slot(limiter: AsyncLimiter, client: str) -> int:
    return slot_of(limiter._store._commands.names.key("client=" + client))


class Traffic:
    """Every client asks again and again until the test has seen enough."""

    def __init__(self, limiter: AsyncLimiter, clients: list[str]) -> None:
        self.found: dict[str, list[Decision]] = {client: [] for client in clients}
        self.longest_s = 0.0
        self._limiter = limiter
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            for client, found in self.found.items():
                began = time.monotonic()
                found.append(await self._limiter.check(client, "r"))
                self.longest_s = max(self.longest_s, time.monotonic() - began)
            await asyncio.sleep(0.005)  # some 200 rounds in a second

    def rounds(self) -> int:
        return min(map(len, self.found.values()))

    async def end(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


async def test_a_planned_failover_loses_no_token(
    cluster: Cluster, opened: Opened, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limen.stores.valkey.cluster, "SPARE_S", 0.2)
    limiter = await opened(cluster.url, RULES)
    primary = cluster.owner(slot(limiter, "planned"))
    replica = cluster.replica_of(primary)
    traffic = Traffic(limiter, ["planned"])
    await until(lambda: traffic.rounds() > 5)
    await asyncio.to_thread(replica.ask, "CLUSTER", "FAILOVER")
    await until(lambda: limiter._store.cluster.node_of(slot(limiter, "planned")).endpoint.port == replica.port)
    seen = traffic.rounds()
    await until(lambda: traffic.rounds() > seen + 5)
    await traffic.end()
    found = traffic.found["planned"]
    left = [each.remaining for each in found if each.source == "store"]
    assert left == [CAPACITY - 1 - at for at in range(len(left))]
    assert len(found) - len(left) <= 20, "at most a moment is degraded"
    await until(lambda: Address("127.0.0.1", primary.port) not in limiter._store.cluster.nodes)
    assert len(limiter._store.cluster.nodes) == 3, "who owns nothing is hung up on, after a while"


async def test_a_request_over_a_shard_that_hangs_is_charged_nowhere(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    """What the other shard took is given back: at once there, and on the hung one behind the take, when it goes on."""
    rules = [
        Rule("client", match={"path": "/**"}, key_by=["client"], limit="100/day"),
        Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="100/day"),
    ]
    limiter = await opened(cluster.url, rules, deadline_ms=100)
    hung = cluster.owner(slot(limiter, "a"))
    key = limiter._store._commands.names.key
    ip = next(f"192.0.2.{at}" for at in range(99) if cluster.owner(slot_of(key(f"ip=192.0.2.{at}"))) is not hung)
    assert (await limiter.check_request(Request(client="a", ip=ip))).source == "store"
    hung.send_signal(signal.SIGSTOP)
    try:
        found = await asyncio.gather(*(limiter.check_request(Request(client="a", ip=ip)) for _ in range(3)))
        found += [await limiter.check_request(Request(client="a", ip=ip)) for _ in range(3)]
        assert {each.source for each in found} == {"local_share"}
        assert (await limiter.check("other", "ip")).source in ("store", "local_share")
    finally:
        hung.send_signal(signal.SIGCONT)
    await until(
        lambda: not limiter._store.givings._tasks and limiter._store.cluster.node_of(slot(limiter, "a")).state == "up"
    )
    async with asyncio.timeout(20):
        while (whole := await limiter.check_request(Request(client="a", ip=ip))).degraded:
            await asyncio.sleep(0.01)  # the pace of asking
    assert limiter._store.givings.lost == 0
    assert whole.remaining == 92, "the first request, six that passed without the store, and this one"
    assert (await limiter.peek("a", "client")).remaining == 92


async def test_RO_05_a_primary_crashes_and_comes_back(cluster: Cluster, opened: Opened, until: Until) -> None:
    limiter = await opened(cluster.url, RULES, deadline_ms=500)
    lost = cluster.owner(slot(limiter, CLIENTS[0]))
    theirs = {client for client in CLIENTS if cluster.owner_in(lost, slot(limiter, client))}
    others = set(CLIENTS) - theirs
    traffic = Traffic(limiter, CLIENTS)
    await until(lambda: traffic.rounds() > 5)
    lost.kill()
    await until(lambda: traffic.found[CLIENTS[0]][-1].degraded)
    assert (await limiter.check(CLIENTS[0], "closed")).status == 503
    await until(lambda: all(not traffic.found[client][-1].degraded for client in CLIENTS))
    lost.start()
    await asyncio.to_thread(wait_for, cluster.agrees, "the node is back")
    seen = traffic.rounds()
    await until(lambda: traffic.rounds() > seen + 10)
    await traffic.end()
    kinds = Counter(each.source for client in others for each in traffic.found[client])
    assert set(kinds) == {"store"}, "nobody else notices"
    for client in theirs:
        allowed = sum(each.allowed for each in traffic.found[client])
        assert allowed <= 2 * CAPACITY
        assert not any(each.degraded for each in traffic.found[client][-5:])
    assert limiter.store_state == "up"


async def test_RO_05_a_primary_that_hangs_is_replaced_and_every_call_is_short(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    limiter = await opened(cluster.url, RULES, deadline_ms=50)
    hung: Server = cluster.owner(slot(limiter, "acme"))
    traffic = Traffic(limiter, ["acme"])
    await until(lambda: traffic.rounds() > 5)
    hung.send_signal(signal.SIGSTOP)
    try:
        await until(lambda: traffic.found["acme"][-1].degraded)
        await until(lambda: not traffic.found["acme"][-1].degraded)
    finally:
        hung.send_signal(signal.SIGCONT)
    await traffic.end()
    assert traffic.longest_s < 2, "far below what the cluster takes, far above a deadline on a busy machine"
    assert limiter._store.cluster.node_of(slot(limiter, "acme")).endpoint.port != hung.port
