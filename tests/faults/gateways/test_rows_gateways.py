"""Gateways that are frozen, restarted or miscounted, and the database behind them: whole processes under load."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from limen.admin.records import Gateway
from limen.admin.repository import Repository
from tests.faults.fleet.row import Row
from tests.faults.gateways.members import POLL_S, Member, eventually, put

TOO_LONG_S = 3 * POLL_S + 5
"""Rules that nobody looked after for so long are read anew before the next decision."""
PER_DAY = {"match": {"path": "/day"}, "key_by": ["client"]}
AWAY = "valkey://127.0.0.1:1"


async def test_F23_frozen_gateway(row: Row, length: Any, member: Any, valkey_url: str, rules_db: str) -> None:
    frozen_s = length.pick(TOO_LONG_S + 0.5, 60)
    row.of(
        f"SIGSTOP of a gateway for {frozen_s:g} s, meanwhile a rule is changed; SIGCONT",
        "what waited for it is decided by the rules of today, the first one too",
    )
    await put(rules_db, "day", **PER_DAY, limit="1000000/day")
    gateway = member(valkey_url, "--deadline-ms", "1000")
    assert (await gateway.get("/day"))[0] == 200
    gateway.running.process.send_signal(signal.SIGSTOP)
    frozen_at = time.monotonic()
    await put(rules_db, "day", **PER_DAY, limit=0)
    waiting = [asyncio.create_task(gateway.get("/day")) for _ in range(50)]

    async def long_enough() -> bool:
        return time.monotonic() > frozen_at + frozen_s

    await eventually(long_enough, frozen_s + 10)
    gateway.running.process.send_signal(signal.SIGCONT)
    found = Counter(status for status, _ in await asyncio.gather(*waiting))
    row.saw(**{"decided by the rules of before": found[200], "by those of today": found[429]})
    assert found == {429: 50}


async def test_F25_wrong_count_of_gateways(row: Row, length: Any, member: Any, rules_db: str) -> None:
    row.of(
        "while the store is away 2 gateways become 50, then 48 of them are killed",
        "N rises within seconds, each share with it, and does not fall in the ten minutes after",
    )
    await put(rules_db, "day", **PER_DAY, limit="100000/day")
    first, second = member(AWAY), member(AWAY)

    def knows(gateway: Member, count: int) -> Callable[[], Awaitable[bool]]:
        async def is_so() -> bool:
            return await gateway.metric("limen_gateways") == count

        return is_so

    async def left(gateway: Member) -> int:
        return int((await gateway.get("/day"))[1]["X-RateLimit-Remaining"])

    for gateway in (first, second):
        await eventually(knows(gateway, 2))
    before = await left(first)
    async with Repository(rules_db) as repository:
        begun = time.monotonic()
        for number in range(48):
            told = Gateway(f"other-{number}", "host", number, "gateway", 0, 1, "ready", "down", 0.0)
            await repository.presence.beat(told)
        for gateway in (first, second):
            await eventually(knows(gateway, 50))
        row.saw(**{"N rose within": f"{time.monotonic() - begun:.1f} s"})
        assert await left(first) <= 100_000 / 50 < before, "what was its own as one of two is that no more"
        await second.stop(signal.SIGKILL)

        async def only_one() -> bool:
            return (await repository.presence.fleet()).alive == 1

        await eventually(only_one)
        assert await knows(first, 50)(), "it seems that there are fewer; for ten minutes that is not believed"
    row.saw(**{"N when 1 was left": 50})


class Traffic:
    """Clients that send to whichever gateway says that it is ready, as a load balancer does.

    A request is dropped when it gets no answer, or another one than it deserves.
    """

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.ready: list[Member] = []
        self.found: Counter[Any] = Counter()

    @asynccontextmanager
    async def flowing(self, lanes: int) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work) for work in (self._look(), *[self._send(lane) for lane in range(lanes)])]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _look(self) -> None:
        while True:
            seen = await asyncio.gather(*[member.ready() for member in self.members])
            self.ready = [member for member, is_ready in zip(self.members, seen, strict=True) if is_ready]
            await asyncio.sleep(0.05)

    async def _send(self, lane: int) -> None:
        turn = lane
        while True:
            turn += 1
            if self.ready:
                await asyncio.shield(asyncio.create_task(self._one(self.ready[turn % len(self.ready)])))
            await asyncio.sleep(0.02)

    async def _one(self, member: Member) -> None:
        try:
            status, _ = await member.get("/day")
        except (aiohttp.ClientError, OSError) as error:
            self.found[repr(error)] += 1
        else:
            self.found[status] += 1


async def test_F27_rolling_restart(row: Row, length: Any, member: Any, valkey_url: str, rules_db: str) -> None:
    rounds = length.pick(1, 5)
    row.of(
        f"SIGTERM to each of four gateways in turn under load, {rounds} times; each is started anew when it has ended",
        "no request is dropped, none is let through beyond the limit, nobody is ready before it has rules",
    )
    await put(rules_db, "day", **PER_DAY, limit="1/day burst 300")
    members = [member(valkey_url, "--deadline-ms", "1000", LIMEN_DRAIN_S="1") for _ in range(4)]
    traffic = Traffic(members)
    async with traffic.flowing(lanes=8):
        for gateway in members * rounds:
            await eventually(all_ready(members))
            await gateway.stop(signal.SIGTERM)
            assert gateway.running.process.returncode == 0
            await asyncio.to_thread(gateway.begin)
        await eventually(all_ready(members))
    sent = traffic.found.total()
    row.saw(requests=sent, dropped=sent - traffic.found[200] - traffic.found[429], let_through=traffic.found[200])
    assert sent > 400, "there was load"
    assert set(traffic.found) == {200, 429}, traffic.found
    assert traffic.found[200] == 300


def all_ready(members: list[Member]) -> Callable[[], Awaitable[bool]]:
    async def are() -> bool:
        return all(await asyncio.gather(*[member.ready() for member in members]))

    return are


async def test_F27_local_buckets_never_begin_full(length: Any, member: Any, rules_db: str) -> None:
    await put(rules_db, "day", **PER_DAY, limit="1/day burst 400")
    gateway = member(AWAY, "--gateways", "4")
    for _ in range(length.pick(2, 5)):
        statuses = Counter([(await gateway.get("/day"))[0] for _ in range(50)])
        assert statuses == {200: 10, 429: 40}, "a tenth of a quarter"
        await gateway.stop(signal.SIGTERM)
        await asyncio.to_thread(gateway.begin)


class Postgres:
    """A database server that a test can stop and let go on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    @classmethod
    async def behind(cls, url: str) -> Postgres:
        connection = await asyncpg.connect(url)
        backend = await connection.fetchval("SELECT pg_backend_pid()")
        server = parent_of(backend)
        await connection.close()
        return cls(server)

    def stop(self) -> None:
        """It accepts connections, as the kernel does that for it, and says nothing any more."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        children = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
        for pid in (self._pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):  # a connection that was hung up ends its process
                os.kill(pid, number)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_F30_rules_database_away(
    row: Row, length: Any, member: Any, limen: Any, valkey_url: str, postgres_url: str, http: Any
) -> None:
    row.of(
        f"SIGSTOP of the rules database for {length.pick('seconds', 'a minute')}, `kill -9` of a gateway meanwhile",
        "decisions go on as before; a gateway that starts decides by the last good rules; the alarm rises; "
        "the admin API answers 503",
    )
    await put(postgres_url, "day", **PER_DAY, limit="1000000/day")
    one, two = (member(valkey_url, "--deadline-ms", "1000", database=postgres_url) for _ in range(2))
    shared = ("--store", valkey_url, "--rules-db", postgres_url, "--poll-s", str(POLL_S))
    service = limen("service", *shared, ready="service on")
    before = await latencies(one)
    database = await Postgres.behind(postgres_url)
    database.stop()
    try:
        stopped_at = time.monotonic()
        during = await latencies(one)
        await two.stop(signal.SIGKILL)
        await asyncio.to_thread(two.begin)
        assert await two.ready()
        assert (await two.get("/day"))[1]["X-RateLimit-Limit"] == "1000000"

        async def alarmed() -> bool:
            return await one.metric("limen_rules_stale") == await two.metric("limen_rules_stale") == 1

        await eventually(alarmed)
        row.saw(**{"alarm after": f"{time.monotonic() - stopped_at:.1f} s"})
        async with http.get(f"{service.url}/admin/rules") as answer:
            assert (answer.status, answer.content_type) == (503, "application/problem+json")

        async def long_enough() -> bool:
            return (await one.get("/day"))[0] == 200 and time.monotonic() > stopped_at + length.pick(0, 60)

        await eventually(long_enough, 90)
        during += await latencies(one)
    finally:
        database.go_on()

    async def fresh() -> bool:
        return not (await one.metric("limen_rules_stale") or await two.metric("limen_rules_stale"))

    await eventually(fresh)
    middle = [sorted(times)[len(times) // 2] * 1000 for times in (before, during)]
    p99 = [sorted(times)[len(times) * 99 // 100] * 1000 for times in (before, during)]
    row.saw(
        **{
            "median through the gateway, before and meanwhile": "{:.1f} ms, {:.1f} ms".format(*middle),
            "p99": "{:.1f} ms, {:.1f} ms".format(*p99),
        }
    )
    assert middle[1] < 3 * middle[0]


async def latencies(gateway: Member, count: int = 500) -> list[float]:
    """Seconds that each of so many requests took, one after the other; all of them pass."""
    found = []
    for _ in range(count):
        begun = time.perf_counter()
        assert (await gateway.get("/day"))[0] == 200
        found.append(time.perf_counter() - begun)
    return found
