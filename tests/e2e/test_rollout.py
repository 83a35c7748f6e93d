"""A limit is tried, then changed, on real gateways: what they count of it, and what clients have left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from tests.processes import Upstream

QUICK = ("--deadline-ms", "1000", "--poll-s", "0.2")


async def test_a_candidate_is_counted_promoted_and_carried_over_also_by_gateways_that_start_later(
    limen: Callable[..., Any],
    find_port: Callable[[], int],
    upstream: Upstream,
    valkey_url: str,
    tmp_path: Path,
) -> None:
    shared = ("--store", valkey_url, "--rules-db", f"sqlite:///{tmp_path}/rules.db", *QUICK)
    service = limen("service", *shared, ready="service on").url
    ops = [f"http://127.0.0.1:{find_port()}" for _ in range(2)]

    def gateway(number: int) -> str:
        options = ("--upstream", upstream.url, "--ops-port", ops[number].rpartition(":")[2], *shared)
        return str(limen("gateway", *options, ready="gateway on").url)

    async with aiohttp.ClientSession() as http:

        async def ask(method: str, url: str, document: Any = None, **headers: str) -> Any:
            async with http.request(method, url, json=document, headers=headers) as response:
                text = await response.text()
                assert response.status < 400, text
                return await response.json() if "json" in response.headers["content-type"] else text

        async def left(base: str, client: str) -> int:
            return int((await ask("GET", f"{base}/v1/state?client={client}&rule=api"))["remaining"])

        rule = {"match": {"path": "/api/**"}, "limit": "10/day", "candidate": "40/day", "carry_over": "proportional"}
        await ask("PUT", f"{service}/admin/rules/api", rule)
        for client in "ab":
            await ask("PUT", f"{service}/admin/clients/{client}", {"api_keys": [f"the-key-of-{client}"]})
        first = gateway(0)
        for client in "ab":
            for _ in range(5):
                await ask("GET", f"{first}/api/x", **{"X-API-Key": f"the-key-of-{client}"})
        counted = 'limen_candidate_decisions_total{candidate="allowed",live="allowed",rule="api"} 10.0'
        assert counted in await ask("GET", f"{ops[0]}/metrics")

        promoted = await ask("POST", f"{service}/admin/rules/api/promote?reason=tried")
        assert promoted["limit"] == "40/day"
        assert await left(service, "a") == 20
        async with asyncio.timeout(20):
            while (await ask("GET", f"{ops[0]}/v1/state?client=a&rule=api"))["limit"] != 40:
                await asyncio.sleep(0.01)  # the pace of looking
        await ask("GET", f"{first}/api/x", **{"X-API-Key": "the-key-of-a"})
        gateway(1)  # has never known the old limit
        assert [await left(ops[1], client) for client in "ab"] == [19, 20]
        assert [await left(ops[0], client) for client in "ab"] == [19, 20]
