"""Rules that change under load, hints that get lost, and a database that takes its time: whole processes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import asyncpg
import pytest

from tests.faults.fleet.row import Row
from tests.faults.gateways.members import Member, eventually, put

QUOTA, PER_DAY = 2_000_000, 100
"""More than is asked for in the longest form, and hardly anything comes back meanwhile."""
LOW, HIGH = f"{PER_DAY}/day burst {QUOTA}", f"{PER_DAY}/day burst {QUOTA + 100_000}"
RULE = {"match": {"path": "/day"}, "key_by": ["client"], "limit": LOW}
POLL_S = 10.0
ALL_S, MOST_S = 30.0, 5.0
"""In force on every gateway: always, and in 99 of 100 changes."""


class Admin:
    """An operator at a service."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._http = http

    async def __call__(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        async with self._http.request(method, f"{self._url}/admin{path}", json=document) as answer:
            return answer.status, await answer.json()


@pytest.fixture
def admin(limen: Callable[..., Any], http: aiohttp.ClientSession, valkey_url: str) -> Callable[[str], Admin]:
    """`admin(database)`: somebody who changes rules there."""

    def start(database: str) -> Admin:
        shared = ("--store", valkey_url, "--rules-db", database, "--watch-minutes", "0")
        return Admin(limen("service", *shared, ready="service on").url, http)

    return start


async def revision(gateway: Member, http: aiohttp.ClientSession) -> int:
    async with http.get(f"http://127.0.0.1:{gateway.ports[1]}/readyz") as answer:
        return int((await answer.json())["rules_revision"])


async def arrived(gateways: list[Member], http: aiohttp.ClientSession, wanted: int, begun: float) -> list[float]:
    """Seconds after which each gateway had these rules."""

    async def one(gateway: Member) -> float:
        async def has() -> bool:
            return await revision(gateway, http) >= wanted

        await eventually(has, 2 * ALL_S)
        return time.monotonic() - begun

    return list(await asyncio.gather(*map(one, gateways)))


@asynccontextmanager
async def load(gateways: list[Member], found: Counter[Any]) -> AsyncIterator[None]:
    """Requests all the time, at each gateway; what came of them is counted."""
    over = asyncio.Event()

    async def send(gateway: Member) -> None:
        while not over.is_set():
            try:
                found[(await gateway.get("/day"))[0]] += 1
            except (aiohttp.ClientError, OSError) as error:
                found[repr(error)] += 1
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(send(gateway)) for gateway in gateways for _ in range(2)]
    try:
        yield
    finally:
        over.set()
        await asyncio.gather(*tasks)


async def test_F32_rules_change_and_go_back(
    row: Row, length: Any, member: Any, admin: Any, http: Any, valkey_url: str, postgres_url: str
) -> None:
    cycles, count = length.pick(5, 100), length.pick(2, 4)
    row.of(
        f"a limit is changed and put back {cycles} times, under load, {count} gateways",
        f"in force on every gateway within {ALL_S:g} s, in 99 of 100 changes within {MOST_S:g} s; no request fails "
        "and buckets go on as they are",
    )
    await put(postgres_url, "day", **RULE)
    operator = admin(postgres_url)
    options = ("--deadline-ms", "1000")
    gateways = [member(valkey_url, *options, database=postgres_url, poll_s=POLL_S) for _ in range(count)]
    took: list[float] = []
    answered: list[float] = []
    back: list[float] = []
    statuses: Counter[Any] = Counter()
    first = time.monotonic()
    async with load(gateways, statuses):
        for cycle in range(cycles):
            begun = time.monotonic()
            assert (await operator("PUT", "/rules/day", {**RULE, "limit": HIGH}))[0] == 200
            answered.append(time.monotonic() - begun)
            took += await arrived(gateways, http, 2 * cycle + 2, time.monotonic())
            begun = time.monotonic()
            status, document = await operator("POST", "/rules/day/rollback", {"version": 1, "reason": "too much"})
            assert (status, document["limit"]) == (200, LOW)
            took += await arrived(gateways, http, 2 * cycle + 3, time.monotonic())
            back.append(time.monotonic() - begun)
    left = int((await gateways[0].get("/day"))[1]["X-RateLimit-Remaining"])
    grown = (time.monotonic() - first) * PER_DAY / 86_400
    beside = left + statuses[200] + 1 - QUOTA
    slow = sorted(took)[len(took) * 99 // 100]
    row.saw(
        requests=statuses.total(),
        failed=statuses.total() - statuses[200],
        **{
            "a change is judged and answered within": f"{max(answered):.2f} s",
            "in force on every gateway after the answer within": f"{max(took):.2f} s, p99 {slow:.2f} s",
            "taken back on every gateway, all in all, within": f"{max(back):.2f} s",
            "tokens that came or went beside what was spent": f"{beside}, where {grown:.2f} grew back",
        },
    )
    assert statuses.total() > 100, "there was load"
    assert set(statuses) == {200}, statuses
    assert 0 <= beside <= grown, "nobody's bucket was lost, and none began afresh"
    assert max(took + back) <= ALL_S
    assert slow <= MOST_S


async def test_F33_hints_get_lost(
    row: Row, length: Any, member: Any, admin: Any, http: Any, valkey_url: str, postgres_url: str
) -> None:
    changes = length.pick(2, 20)
    row.of(
        f"every connection that listens is killed ten times a second, meanwhile {changes} changes",
        f"in force on every gateway within {ALL_S:g} s all the same; later hints are heard again",
    )
    await put(postgres_url, "day", **RULE)
    operator = admin(postgres_url)
    gateways = [member(valkey_url, database=postgres_url, poll_s=POLL_S) for _ in range(2)]
    took: list[float] = []
    async with killing_listeners(postgres_url) as killed:
        for change in range(changes):
            await put_limit(operator, change)
            took += await arrived(gateways, http, change + 2, time.monotonic())
    assert max(took) <= ALL_S
    assert killed["connections"] >= 3, "there were some to kill"
    begun = time.monotonic()
    async with asyncpg_connection(postgres_url) as database:

        async def listens() -> bool:
            return bool(await database.fetchval(f"SELECT count(*) >= 3 FROM pg_stat_activity WHERE {LISTENING}"))

        await eventually(listens, 60)
    row.saw(
        **{
            "connections that were killed": killed["connections"],
            "in force on every gateway within": f"{max(took):.2f} s",
            "all listen again after": f"{time.monotonic() - begun:.1f} s",
        }
    )


LISTENING = "datname = current_database() AND query LIKE 'LISTEN%' AND pid <> pg_backend_pid()"


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def killing_listeners(url: str) -> AsyncIterator[Counter[str]]:
    killed: Counter[str] = Counter()

    async def kill() -> None:
        async with asyncpg_connection(url) as database:
            while True:
                rows = await database.fetch(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {LISTENING}")
                killed["connections"] += len(rows)
                await asyncio.sleep(0.1)

    async def some() -> bool:
        return killed["connections"] >= 1

    task = asyncio.create_task(kill())
    try:
        await eventually(some)
        yield killed
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def put_limit(operator: Admin, number: int) -> None:
    assert (await operator("PUT", "/rules/day", {**RULE, "limit": f"{PER_DAY}/day burst {QUOTA + 1 + number}"}))[
        0
    ] == 200


async def test_F34_slow_database(
    row: Row, length: Any, member: Any, admin: Any, http: Any, valkey_url: str, postgres_url: str
) -> None:
    row.of(
        "`LOCK TABLE` of the audit log, then of the rules",
        "a change gives up after two seconds with 503: neither it nor a row of the log is there; decisions go on",
    )
    await put(postgres_url, "day", **RULE)
    operator = admin(postgres_url)
    gateway = member(valkey_url, "--deadline-ms", "1000", database=postgres_url)
    statuses: Counter[Any] = Counter()
    async with load([gateway], statuses), asyncpg_connection(postgres_url) as locker:
        for changes, table in enumerate(("audit", "rules"), 1):
            async with locker.transaction():
                await locker.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
                begun = time.monotonic()
                status, problem = await operator("PUT", "/rules/day", {**RULE, "limit": HIGH})
                row.saw(**{f"503 after, {table}": f"{time.monotonic() - begun:.1f} s"})
                assert (status, problem["title"]) == (503, "Service Unavailable")
                assert "statement timeout" in problem["detail"]
            assert await locker.fetchval("SELECT revision FROM meta") == changes
            assert await locker.fetchval("SELECT count(*) FROM audit") == changes
            assert await locker.fetchval("SELECT count(*) FROM rule_versions") == changes
            await put_limit(operator, changes)
    assert set(statuses) == {200}, statuses
    assert statuses[200] > 20, "there was load"
