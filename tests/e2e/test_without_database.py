"""Gateways and services that start, or go on, while their rules database is away."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from limen.admin.repository import Repository

RULE = {"id": "api", "key_by": ["client"], "capacity": 5, "refill_per_sec": 0.0001}
KEY = {"X-API-Key": "key-of-acme"}
POLL = ("--poll-s", "0.1")


class Process(NamedTuple):
    """A gateway or a service, its operators' port, and what it wrote to its log."""

    running: Any
    ops: str
    http: aiohttp.ClientSession
    log: Path

    async def ask(self, method: str, url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        async with self.http.request(method, url, json=body, headers=headers) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if "json" in answer.content_type else text

    async def get(self, path: str = "/x", **headers: str) -> int:
        return (await self.ask("GET", self.running.url + path, **headers))[0]

    async def readiness(self) -> tuple[int, Any]:
        return await self.ask("GET", f"{self.ops}/readyz")

    async def metric(self, name: str) -> float:
        _, text = await self.ask("GET", f"{self.ops}/metrics")
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))

    def said(self) -> list[str]:
        return self.log.read_text().splitlines()


Start = Callable[..., Process]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def start(limen: Any, find_port: Any, tmp_path: Path, http: Any, upstream: Any, valkey_url: str) -> Start:
    """Start a gateway on the rules in `rules/rules.db`, or a service."""

    def make(kind: str = "gateway", *options: str) -> Process:
        ops = find_port()
        shared = ("--store", valkey_url, "--rules-db", f"sqlite:///{tmp_path / 'rules' / 'rules.db'}", *POLL, *options)
        if kind == "gateway":
            shared = ("--upstream", upstream.url, "--ops-port", str(ops), "--deadline-ms", "1000", *shared)
        running = limen(kind, *shared, ready=f"{kind} on")
        url = running.url if kind == "service" else f"http://127.0.0.1:{ops}"
        return Process(running, url, http, tmp_path / f"stderr-{running.port}.txt")

    return make


async def eventually(condition: Callable[[], Awaitable[Any]], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the database is. While the folder is away, so is the database."""
    return tmp_path / "rules"


@pytest.fixture
async def rules(folder: Path) -> None:
    await make(folder)


async def make(folder: Path, **fields: Any) -> None:
    """A database with one rule and one client; or other fields of the rule in the one that is there."""
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    async with Repository(f"sqlite:///{folder / 'rules.db'}") as repository, repository.change() as change:
        await change.put_rule("api", json.dumps({**RULE, **fields}))
        await change.put_client("acme", "free", list(KEY.values()))


async def kill_and_take_away(process: Process, folder: Path) -> Path:
    """The process ends without a word, and the database is not where it was. Where it is now."""
    process.running.process.kill()
    await asyncio.to_thread(process.running.process.wait, 20)
    return await asyncio.to_thread(folder.rename, folder.with_name("away"))


async def test_without_database_and_without_saved_rules_it_waits_and_takes_over_by_itself(
    start: Start, folder: Path
) -> None:
    gateway = start()
    status, problem = await gateway.ask("GET", gateway.running.url + "/x")
    assert (status, problem["status"], problem["title"]) == (503, 503, "Service Unavailable")
    status, details = await gateway.readiness()
    assert (status, details["status"], details["why"]) == (503, "not ready", "no rules have been loaded yet")
    assert str(folder) in details["rules_error"]
    assert (await gateway.ask("GET", f"{gateway.ops}/healthz"))[0] == 200
    assert (await gateway.ask("POST", f"{gateway.ops}/v1/check", {"client": "a", "rule": "api"}))[0] == 503
    assert await gateway.metric("limen_rules_stale") == 1
    assert "no rules yet" in "\n".join(gateway.said())

    await make(folder)

    async def ready() -> bool:
        return (await gateway.readiness())[0] == 200

    await eventually(ready)
    assert [await gateway.get() for _ in range(6)] == [200] * 5 + [429]
    assert (await gateway.ask("POST", f"{gateway.ops}/v1/check", {"client": "a", "rule": "api"}))[0] == 200
    assert await gateway.metric("limen_rules_stale") == 0


async def test_a_service_without_its_database_answers_503_and_then_does_its_work(start: Start, folder: Path) -> None:
    service = start("service")
    for method, path, body in (
        ("GET", "/admin/rules", None),
        ("PUT", "/admin/rules/api", {"limit": "5/minute"}),
        ("POST", "/admin/clients/acme/reset", {}),
        ("GET", "/admin/gateways", None),
        ("POST", "/admin/drill", {"what": "store-down", "percent": 1, "seconds": 1}),
        ("POST", "/v1/check", {"client": "acme", "rule": "api"}),
    ):
        status, problem = await service.ask(method, service.running.url + path, body)
        assert (path, status, problem["status"]) == (path, 503, 503)
    await asyncio.to_thread(folder.mkdir)

    async def put() -> bool:
        return (await service.ask("PUT", f"{service.running.url}/admin/rules/api", {"limit": "5/minute"}))[0] == 201

    async def check() -> bool:
        question = {"client": "acme", "rule": "api"}
        return (await service.ask("POST", f"{service.running.url}/v1/check", question))[0] == 200

    await eventually(put)
    await eventually(check)


async def test_F30_a_restart_without_the_database_goes_on_with_the_same_rules_clients_and_buckets(
    start: Start, folder: Path, tmp_path: Path, rules: None
) -> None:
    before = start()
    assert [await before.get(**KEY) for _ in range(3)] == [200] * 3
    away = await kill_and_take_away(before, folder)

    gateway = start()
    assert [await gateway.get(**KEY) for _ in range(3)] == [200, 200, 429], "the bucket of the same client"
    assert await gateway.get() == 200, "somebody else"
    status, details = await gateway.readiness()
    assert (status, details["status"], details["rules_stale"]) == (200, "ready", True)
    assert details["rules_revision"] == 1
    assert await gateway.metric("limen_rules_stale") == 1
    assert [line for line in gateway.said() if "rules that were saved, revision 1" in line]

    await asyncio.to_thread(away.rename, folder)
    await make(folder, capacity=1000)

    async def fresh() -> bool:
        return await gateway.metric("limen_rules_revision") == 2 and not await gateway.metric("limen_rules_stale")

    await eventually(fresh)


async def test_saved_rules_that_are_damaged_are_refused_and_it_waits(
    start: Start, folder: Path, tmp_path: Path, rules: None
) -> None:
    before = start()
    away = await kill_and_take_away(before, folder)
    (saved,) = await asyncio.to_thread(lambda: list((tmp_path / "state").iterdir()))
    saved.write_text(saved.read_text().replace("0.0001", "0.0002"))

    gateway = start()
    assert await gateway.get() == 503
    assert (await gateway.readiness())[0] == 503
    assert [line for line in gateway.said() if str(saved) in line and "checksum is wrong" in line]
    await asyncio.to_thread(away.rename, folder)

    async def serves() -> bool:
        return await gateway.get() == 200

    await eventually(serves)


async def test_F31_a_restart_over_a_poisoned_row_goes_on_with_the_last_good_version_of_that_rule(
    start: Start, folder: Path, rules: None
) -> None:
    before = start()
    before.running.process.kill()
    await asyncio.to_thread(before.running.process.wait, 20)
    with sqlite3.connect(folder / "rules.db") as database:
        database.execute("UPDATE rules SET document = '{' WHERE id = 'api'")
        database.execute("UPDATE meta SET revision = revision + 1")
    database.close()

    gateway = start()
    assert [await gateway.get(**KEY) for _ in range(6)] == [200] * 5 + [429]
    status, details = await gateway.readiness()
    assert (status, details["rules_revision"], details["rules_stale"]) == (200, 2, False)
    assert "'api'" in details["rules_error"]


async def test_settings_that_cannot_work_are_told_without_the_database_too(start: Start, folder: Path) -> None:
    with pytest.raises(AssertionError, match="dialect"):
        start("gateway", "--dialect", "latin")
    with pytest.raises(AssertionError, match="gateways"):
        start("gateway", "--gateways", "0")
