"""A primary that sentinels know by a name: found at start, and again after each change."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from tests.conftest import buckets_in
from tests.topologies.servers import Server, port_nobody_uses, wait_for

Opened = Callable[..., Awaitable[AsyncLimiter]]
Until = Callable[[Callable[[], object]], Awaitable[None]]
RULES = [Rule("r", limit="100/day")]
SECRET = "wörd@/#1"


class Trio:
    """A primary, a replica, and three sentinels that watch them. Everybody wants a password, sentinels another."""

    def __init__(self, family: str, folder: Path) -> None:
        guard = ("--requirepass", SECRET, "--masterauth", SECRET)
        first = Server(family, folder / "first", *guard, "--repl-diskless-sync-delay", "0")
        second = Server(family, folder / "second", *guard, "--replicaof", f"127.0.0.1 {first.port}")
        self.servers = [first, second]
        self.sentinels: list[Server] = []
        try:
            self._watch(family, folder)
        except BaseException:
            self.stop()
            raise

    def _watch(self, family: str, folder: Path) -> None:
        for at in range(3):
            lines = [
                f"sentinel monitor main 127.0.0.1 {self.servers[0].port} 2",
                "sentinel down-after-milliseconds main 400",
                "sentinel failover-timeout main 4000",
                f'sentinel auth-pass main "{SECRET}"',
                "requirepass watch+er",
                "sentinel sentinel-pass watch+er",
            ]
            home = folder / f"sentinel-{at}"
            home.mkdir(parents=True)
            (home / "sentinel.conf").write_text("\n".join(lines) + "\n")
            self.sentinels.append(Server(family, home, sentinel=True))
        wait_for(self.all_see, "the sentinels know each other and the replica")

    @property
    def url(self) -> str:
        hosts = ",".join(sentinel.address for sentinel in self.sentinels)
        return f"valkey+sentinel://:{SECRET}@{hosts}/main?sentinel_password=watch+er"

    def all_see(self) -> bool:
        return all(
            state["num-other-sentinels"] == 2 and state["num-slaves"] == 1 and state["flags"] == "master"
            for state in map(self._state, self.sentinels)
        )

    @property
    def primary(self) -> Server:
        """As the sentinels see it."""
        port = self._state(self.sentinels[0])["port"]
        return next(server for server in self.servers if server.port == port)

    @property
    def replica(self) -> Server:
        primary = self.primary
        return next(server for server in self.servers if server is not primary)

    @staticmethod
    def _state(sentinel: Server) -> dict[str, Any]:
        with sentinel.client(password="watch+er") as client:
            return dict(client.sentinel_master("main"))

    def stop(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.stop()


@pytest.fixture(scope="module")
def running_trio(family: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    trio = Trio(family, tmp_path_factory.mktemp("trio"))
    yield trio
    trio.stop()


@pytest.fixture
def trio(running_trio: Trio) -> Trio:
    """All well, and empty. The test that breaks it comes last."""
    wait_for(running_trio.all_see, "the sentinels know each other and the replica")
    with running_trio.primary.client(password=SECRET) as client:
        client.flushall()
    return running_trio


async def up(limiter: AsyncLimiter) -> Any:
    """The first decision that the store makes."""
    async with asyncio.timeout(30):
        while (decision := await limiter.check("acme", "r")).degraded:
            await asyncio.sleep(0.02)  # the pace of asking
    return decision


async def test_what_is_wrong_with_sentinels_is_said(
    trio: Trio, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    dead = f"127.0.0.1:{port_nobody_uses()}"
    for url, message in (
        (trio.url.replace("/main?", "/other?"), "knows no primary called 'other'"),
        (trio.url.replace("watch+er", "wrong"), "refused the login"),
        (f"valkey+sentinel://{dead}/main", "no sentinel knows the primary 'main'.*cannot be reached"),
    ):
        caplog.clear()
        limiter = await opened(url, RULES)
        assert (await limiter.check("acme", "r")).degraded
        assert re.search(message, caplog.text)


async def test_RO_01_a_planned_failover_moves_everybody(trio: Trio, opened: Opened, until: Until) -> None:
    limiter = await opened(trio.url, RULES)
    await up(limiter)
    await asyncio.to_thread(wait_for, lambda: _copied(trio), "the replica has the bucket")
    before, after = trio.primary, trio.replica
    with trio.sentinels[0].client(password="watch+er") as client:
        client.execute_command("SENTINEL FAILOVER", "main")
    await asyncio.to_thread(wait_for, lambda: trio.primary is after, "the replica is promoted")
    assert limiter._store.node.endpoint.port in (before.port, after.port)
    async with asyncio.timeout(30):
        while limiter._store.node.endpoint.port != after.port or (await limiter.check("acme", "r")).degraded:
            await asyncio.sleep(0.02)  # the pace of asking
    assert (await limiter.peek("acme", "r")).source == "store"


async def test_a_primary_that_crashes_is_followed_by_its_replica(trio: Trio, opened: Opened) -> None:
    before, after = trio.primary, trio.replica
    trio.sentinels[0].send_signal(signal.SIGSTOP)  # one sentinel that hangs is no reason to wait
    limiter = await opened(trio.url, RULES)
    assert (await up(limiter)).remaining == 99
    assert limiter._store.node.endpoint.port == before.port
    trio.sentinels[0].send_signal(signal.SIGCONT)
    await asyncio.to_thread(wait_for, lambda: _copied(trio), "the replica has the bucket")
    before.kill()
    assert (await limiter.check("acme", "r")).allowed
    decision = await up(limiter)
    assert 88 <= decision.remaining <= 98, "the count goes on from what was replicated, less what passed meanwhile"
    assert limiter._store.node.endpoint.port == after.port


def _copied(trio: Trio) -> bool:
    with trio.replica.client(password=SECRET) as client:
        return bool(buckets_in(client))
