"""A change that turns out to hurt, on a running gateway: predicted by its traffic, and taken back by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

CLIENTS = 40
RULE = {"match": {"path": "/api/**"}, "key_by": ["ip"], "limit": "400/minute"}
TIGHTER = {**RULE, "limit": "40/minute"}
SOON_S = 60


class House:
    """A gateway, a service, and clients that come through a proxy."""

    def __init__(self, http: aiohttp.ClientSession, gateway: Any, service: Any) -> None:
        self._http = http
        self._gateway = gateway
        self._service = service

    async def send(self, each: int) -> int:
        """So many requests of every client; how many were denied."""
        statuses = await asyncio.gather(*[self._ask(client) for client in range(CLIENTS) for _ in range(each)])
        assert set(statuses) <= {200, 429}
        return statuses.count(429)

    async def _ask(self, client: int) -> int:
        async with self._http.get(
            f"{self._gateway.url}/api/x", headers={"X-Forwarded-For": f"198.51.100.{client}"}
        ) as answer:
            await answer.read()
            return answer.status

    async def followed(self) -> bool:
        """Whether the gateway decides by the newest rules."""
        gateways = (await self.admin("GET", "/gateways"))[1]["gateways"]
        return not any(each["behind"] or not each["revision"] for each in gateways)

    async def admin(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        async with self._http.request(method, f"{self._service.url}/admin{path}", json=document) as answer:
            return answer.status, await answer.json(content_type=None)

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Look again and again; what was found when it was found."""
        async with asyncio.timeout(SOON_S):
            while not (found := await condition()):
                await asyncio.sleep(0.1)
            return found


@pytest.fixture
async def house(limen: Callable[..., Any], valkey_url: str, tmp_path: Path, upstream: Any) -> AsyncIterator[House]:
    shared = ("--store", valkey_url, "--rules-db", f"sqlite:///{tmp_path / 'rules.db'}", "--poll-s", "0.5")
    shared += ("--deadline-ms", "1000", "--trusted-proxy", "127.0.0.1")
    gateway = limen("gateway", "--upstream", upstream.url, *shared, ready="gateway on")
    service = limen("service", *shared, ready="service on")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as http:
        yield House(http, gateway, service)


async def test_a_change_is_predicted_by_the_traffic_and_taken_back_when_it_does_more_harm(house: House) -> None:
    assert (await house.admin("PUT", "/rules/api", RULE))[0] == 201
    await house.until(house.followed)
    assert await house.send(each=10) == 0

    async def sampled() -> Any:
        _, preview = await house.admin("POST", "/rules/api/preview", TIGHTER)
        return preview["effect"] and preview["effect"]["requests"] >= CLIENTS * 10 and preview

    preview = await house.until(sampled)
    assert (preview["verdict"], preview["effect"]["newly_denied"]) == ("allowed", 0)
    refused, problem = await house.admin("PUT", "/rules/api", {**RULE, "limit": "5/minute"})
    assert refused == 409
    predicted = problem["preview"]["effect"]
    assert (predicted["newly_denied"], predicted["clients_newly_denied"]) == (CLIENTS * 5, CLIENTS)

    assert (await house.admin("PUT", "/rules/api", TIGHTER))[0] == 200
    denied, begun = 0, time.monotonic()

    async def rolled_back() -> bool:
        nonlocal denied, begun
        denied += await house.send(each=5)
        begun = begun if denied else time.monotonic()
        return (await house.admin("GET", "/watches"))[1]["watches"][0]["state"] == "rolled_back"

    await house.until(rolled_back)
    assert denied > 0
    print(f"taken back {time.monotonic() - begun:.1f} s after it began to deny")  # noqa: T201
    _, rule = await house.admin("GET", "/rules/api")
    assert (rule["limit"], rule["version"]) == ("400/minute", 3)
    _, history = await house.admin("GET", "/rules/api/history")
    newest = max(history["versions"], key=lambda version: version["version"])
    assert (newest["author"], newest["action"]) == ("watch", "rollback")
    assert "0.00 % was predicted" in newest["reason"]
    await house.until(house.followed)
    assert await house.send(each=1) == 0
