"""The errors of real servers, provoked: the failure policy decides meanwhile, and all is well afterwards."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from tests.conftest import buckets_in
from tests.topologies.servers import Server

Opened = Callable[..., Awaitable[AsyncLimiter]]
Until = Callable[[Callable[[], object]], Awaitable[None]]
RULES = [Rule("r", limit="100/day"), Rule("two", limit="2/day")]


class Kinds:
    """What metrics would count."""

    def __init__(self) -> None:
        self.errors: set[str] = set()

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        """Not looked at."""

    def on_store_error(self, kind: str, shard: str) -> None:
        self.errors.add(kind)


@pytest.fixture
def kinds() -> Kinds:
    return Kinds()


@pytest.fixture
def server(family: str, tmp_path: Path) -> Iterator[Server]:
    server = Server(family, tmp_path, "--enable-debug-command", "local", "--busy-reply-threshold", "20")
    yield server
    server.stop()


@pytest.fixture
async def limiter(server: Server, opened: Opened, kinds: Kinds) -> AsyncLimiter:
    return await opened(f"valkey://{server.address}", RULES, observer=kinds)


async def normal(limiter: AsyncLimiter, client: str = "acme") -> Decision:
    """The first decision that the store makes."""
    async with asyncio.timeout(20):
        while (decision := await limiter.check(client, "r")).degraded:
            await asyncio.sleep(0.01)  # the pace of asking
    return decision


async def test_RO_13_memory_is_full(limiter: AsyncLimiter, server: Server, kinds: Kinds) -> None:
    """OOM: who has tokens cannot spend them; who has none is still refused by the store, and looking works."""
    for _ in range(2):
        await limiter.check("acme", "two")
    server.ask("CONFIG", "SET", "maxmemory", "1")
    found = [await limiter.check("new", "r") for _ in range(10)]
    assert {each.source for each in found} == {"local_share"}
    assert kinds.errors == {"full"}
    assert limiter.store_state == "up"
    denied = await limiter.check("acme", "two")
    assert (denied.allowed, denied.source, denied.remaining) == (False, "store", 0)
    assert (await limiter.peek("new", "r")).source == "store"
    server.ask("CONFIG", "SET", "maxmemory", "0")
    assert (await limiter.check("new", "r")).remaining == 89, "what passed without the store is charged"


async def test_RO_13_a_script_does_not_end(
    limiter: AsyncLimiter, server: Server, kinds: Kinds, caplog: pytest.LogCaptureFixture
) -> None:
    """BUSY, from the script of somebody else."""
    await normal(limiter)
    stuck = asyncio.create_task(asyncio.to_thread(_loop_for_ever, server))
    async with asyncio.timeout(20):
        while "busy" not in kinds.errors or limiter.store_state == "up":
            await limiter.check("acme", "r")
            await asyncio.sleep(0.005)  # the pace of asking
    assert "stop it with SCRIPT KILL" in caplog.text
    await asyncio.to_thread(server.ask, "SCRIPT", "KILL")
    await stuck
    assert (await normal(limiter)).source == "store"
    assert limiter._store.node.connections == 1


def _loop_for_ever(server: Server) -> None:
    with server.client() as client, pytest.raises(redis.ResponseError, match="killed"):
        client.eval("while true do end", 0)


async def test_RO_13_a_replica_without_its_primary(
    limiter: AsyncLimiter, server: Server, kinds: Kinds, free_port: int
) -> None:
    """MASTERDOWN, then a primary again."""
    await normal(limiter)
    server.ask("CONFIG", "SET", "replica-serve-stale-data", "no")
    server.ask("REPLICAOF", "127.0.0.1", free_port)
    async with asyncio.timeout(20):
        while not kinds.errors & {"master_down", "read_only"}:
            await limiter.check("acme", "r")
    server.ask("REPLICAOF", "NO", "ONE")
    decision = await normal(limiter)
    assert decision.remaining is not None
    assert decision.remaining <= 98


async def test_RO_13_a_server_is_loading_its_data(family: str, tmp_path: Path, opened: Opened, kinds: Kinds) -> None:
    """LOADING: it accepts connections, and does not decide before it is done."""
    delay = ("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
    server = Server(family, tmp_path, *delay, "--dbfilename", "dump.rdb")
    try:
        limiter = await opened(f"valkey://{server.address}", RULES, observer=kinds)
        assert (await normal(limiter)).remaining == 99
        with server.client() as client:
            pipeline = client.pipeline(transaction=False)
            for at in range(1500):
                pipeline.set(f"filling:{at}", "x" * 200)
            pipeline.execute()
            client.save()
        server.kill()
        server.start()
        assert 88 <= (await normal(limiter)).remaining <= 98, "up to a tenth passed without it, and is charged"
        assert "loading" in kinds.errors
    finally:
        server.stop()


async def test_RO_01_the_script_is_lost_by_flush_and_restart(
    limiter: AsyncLimiter, server: Server, kinds: Kinds
) -> None:
    left = [(await limiter.check("acme", "r")).remaining for _ in range(3)]
    server.ask("SCRIPT", "FLUSH")
    left += [(await limiter.check("acme", "r")).remaining for _ in range(3)]
    server.ask("SAVE")
    server.kill()
    server.start()
    left.append((await normal(limiter)).remaining)
    server.ask("SCRIPT", "FLUSH")
    server.ask("CONFIG", "RESETSTAT")
    found = await asyncio.gather(*(limiter.check("acme", "r") for _ in range(50)))
    assert left[:6] == [99, 98, 97, 96, 95, 94]
    assert 83 <= left[6] <= 93, "up to a tenth passed without it, and is charged"
    assert sorted((each.remaining or 0 for each in found), reverse=True) == [left[6] - 1 - at for at in range(50)]
    assert server.ask("INFO", "commandstats")["cmdstat_script|load"]["calls"] == 1
    assert kinds.errors <= {"down"}


async def test_a_password_is_set_and_changed_under_way(
    limiter: AsyncLimiter, server: Server, opened: Opened, kinds: Kinds
) -> None:
    await normal(limiter)
    with server.client() as client:
        client.config_set("requirepass", "new@pass")
        client.client_kill_filter(skipme=True)
        async with asyncio.timeout(20):
            while "login" not in kinds.errors:
                await limiter.check("acme", "r")
                await asyncio.sleep(0.005)  # the pace of asking
        other = await opened(f"valkey://:new@pass@{server.address}", RULES)
        assert (await other.check("acme", "r")).source == "store"
        client.config_set("requirepass", "")
    assert (await normal(limiter)).source == "store"


async def test_a_user_who_may_do_little_is_told_what_is_missing(
    server: Server, opened: Opened, kinds: Kinds, caplog: pytest.LogCaptureFixture
) -> None:
    server.ask("ACL", "SETUSER", "bob", "on", ">p#/@s:s", "~limen{*", "+@all", "-evalsha")
    limiter = await opened(f"valkey://bob:p#/@s:s@{server.address}/0", RULES, observer=kinds)
    found = [await limiter.check("acme", "r") for _ in range(5)]
    assert all(each.degraded for each in found)
    assert kinds.errors == {"no_permission"}
    server.ask("ACL", "SETUSER", "bob", "+evalsha")
    assert (await limiter.check("acme", "r")).source == "store"
    server.ask("ACL", "SETUSER", "bob", "resetkeys", "~other:*")
    assert (await limiter.check("acme", "r")).degraded


async def test_who_cannot_log_in_is_told_so_without_the_password(
    server: Server, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    limiter = await opened(f"valkey://bob:guess@{server.address}", RULES)
    assert (await limiter.check("acme", "r")).degraded
    assert "refused the login" in caplog.text
    assert "guess" not in caplog.text


async def test_IPv6_and_another_database(family: str, tmp_path: Path, opened: Opened) -> None:
    server = Server(family, tmp_path, "--bind", "127.0.0.1 ::1")
    try:
        limiter = await opened(f"valkey://[::1]:{server.port}/3", RULES)
        assert (await limiter.check("acme", "r")).source == "store"
        with server.client(db=3) as client:
            assert len(buckets_in(client)) == 1
    finally:
        server.stop()


async def test_a_server_that_hangs_and_a_script_that_was_lost_meanwhile(
    limiter: AsyncLimiter, server: Server, until: Until
) -> None:
    await normal(limiter)
    quick: Any = await _impatient(server)
    try:
        server.send_signal(signal.SIGSTOP)
        found = await asyncio.gather(*(quick.check("acme", "r") for _ in range(20)))
        assert all(each.degraded for each in found)
        server.send_signal(signal.SIGCONT)
        server.ask("SCRIPT", "FLUSH")
        assert (await normal(quick)).source == "store"
    finally:
        await quick.close()


async def _impatient(server: Server) -> AsyncLimiter:
    limiter = AsyncLimiter(f"valkey://{server.address}", RULES, deadline_ms=50)
    await limiter.start()
    return limiter
