"""An outage of the store that is rehearsed on a whole fleet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from limen.admin.repository import Repository

RULES = {
    "open": {"id": "open", "match": {"path": "/open"}, "key_by": ["client"], "limit": "1/day burst 10000"},
    "closed": {"id": "closed", "match": {"path": "/closed"}, "key_by": ["client"], "limit": "1/day burst 10000",
               "on_failure": "closed"},
}  # fmt: skip
CLIENTS = [f"198.18.0.{number}" for number in range(200)]


async def eventually(condition: Callable[[], Awaitable[Any]], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


async def test_a_drill_reaches_every_gateway_for_the_same_clients_and_ends(
    limen: Callable[..., Any], find_port: Callable[[], int], valkey_url: str, upstream: Any, tmp_path: Path
) -> None:
    rules_db = f"sqlite:///{tmp_path / 'rules.db'}"
    async with Repository(rules_db) as repository, repository.change() as change:
        for name, rule in RULES.items():
            await change.put_rule(name, json.dumps(rule))
    shared = ("--store", valkey_url, "--rules-db", rules_db, "--deadline-ms", "1000")
    proxy = ("--upstream", upstream.url, "--trusted-proxy", "127.0.0.1")
    ops = [find_port(), find_port()]
    gateways = [limen("gateway", *proxy, *shared, "--ops-port", str(port), ready="gateway on") for port in ops]
    service = limen("service", *shared, ready="service on")

    async with aiohttp.ClientSession() as http:

        async def statuses(gateway: Any, path: str) -> list[int]:
            found = []
            for client in CLIENTS:
                async with http.get(gateway.url + path, headers={"X-Forwarded-For": client}) as answer:
                    found.append(answer.status)
            return found

        async def percent(port: int) -> float:
            async with http.get(f"http://127.0.0.1:{port}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            return next((float(line.split()[1]) for line in lines if line.startswith("limen_drill_percent ")), -1.0)

        async def everywhere(wanted: float) -> bool:
            return {await percent(port) for port in ops} == {wanted}

        async def drilled() -> list[float]:
            async with http.get(f"{service.url}/admin/gateways") as answer:
                return [each["drill_percent"] for each in (await answer.json())["gateways"]]

        async def shown() -> bool:
            return await drilled() == [25, 25, 25]

        order = {"what": "store-down", "percent": 25, "seconds": 600, "reason": "game day"}
        async with http.post(f"{service.url}/admin/drill", json=order) as answer:
            assert answer.status == 200
        await eventually(lambda: everywhere(25))
        refused = await statuses(gateways[0], "/closed")
        assert 20 < refused.count(503) < 80, "about a quarter of two hundred"
        assert set(refused) == {200, 503}
        assert await statuses(gateways[1], "/closed") == refused, "the same clients everywhere"
        assert set(await statuses(gateways[0], "/open")) == {200}
        await eventually(shown)

        async with http.delete(f"{service.url}/admin/drill") as answer:
            assert answer.status == 204
        await eventually(lambda: everywhere(0))
        assert set(await statuses(gateways[0], "/closed")) == {200}
    for gateway in gateways:
        said = (tmp_path / f"stderr-{gateway.port}.txt").read_text()
        assert "25 % of the clients" in said
        assert "game day" in said
        assert "is over" in said
