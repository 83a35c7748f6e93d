"""What an operator does to buckets through the service, and from a shell without it, holds at every gateway."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from tests.processes import LIMEN

RULE = {"match": {"path": "/api/**"}, "key_by": ["client"], "capacity": 3, "refill_per_sec": 0.0001}
SEARCH = {"client": "acme", "rule": "api"}
PATIENT = ("--deadline-ms", "1000", "--poll-s", "0.2")


class House(NamedTuple):
    """A gateway with its check API, and a service, on one store; `acme` has an API key."""

    gateway: str
    ops: str
    service: str
    shared: tuple[str, ...]
    http: aiohttp.ClientSession
    folder: Path

    async def ask(self, method: str, url: str, document: Any = None) -> Any:
        async with self.http.request(method, url, json=document) as response:
            assert response.status < 400, await response.text()
            return await response.json() if response.status != 204 else None

    async def passes(self) -> bool:
        async with self.http.get(f"{self.gateway}/api/x", headers={"X-API-Key": "key-of-acme"}) as response:
            return response.status == 200

    async def left(self, base: str) -> int:
        return int((await self.ask("GET", f"{base}/v1/state?client=acme&rule=api"))["remaining"])

    async def shell(self, *words: str) -> Any:
        """A command of its own process; what it prints as JSON."""
        command = [*LIMEN, *words, *self.shared, "--json"]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
async def house(
    limen: Callable[..., Any],
    find_port: Callable[[], int],
    upstream: Any,
    valkey_url: str,
    tmp_path: Path,
) -> AsyncIterator[House]:
    shared = ("--store", valkey_url, "--rules-db", f"sqlite:///{tmp_path}/rules.db")
    service = limen("service", *shared, *PATIENT, ready="service on")
    async with aiohttp.ClientSession() as http:
        ops = find_port()
        house = House("", f"http://127.0.0.1:{ops}", service.url, shared, http, tmp_path)
        await house.ask("PUT", f"{service.url}/admin/rules/api", RULE)
        await house.ask("PUT", f"{service.url}/admin/clients/acme", {"api_keys": ["key-of-acme"]})
        options = ("--upstream", upstream.url, "--ops-port", str(ops), *shared, *PATIENT)
        yield house._replace(gateway=limen("gateway", *options, ready="gateway on").url)


@pytest.fixture
def until_true() -> Callable[..., Any]:
    """`await until_true(question)`: ask again until the answer is yes."""

    async def wait(question: Callable[[], Any], seconds: float = 20) -> None:
        async with asyncio.timeout(seconds):
            while not await question():
                await asyncio.sleep(0.01)  # the pace of looking, not a wait for time

    return wait


async def _spend_all(house: House) -> None:
    assert [await house.passes() for _ in range(4)] == [True, True, True, False]


async def test_a_grant_at_the_service_lets_a_client_through_the_gateway(
    house: House, until_true: Callable[..., Any]
) -> None:
    await _spend_all(house)
    granted = await house.ask("POST", f"{house.service}/admin/grants", {**SEARCH, "tokens": 2, "for": "1h"})
    assert (granted["seconds"], granted["state"]["remaining"]) == (3600, 2)
    await until_true(house.passes)  # the gateway remembers a refusal for a moment
    assert [await house.passes() for _ in range(2)] == [True, False]


async def test_a_grant_and_a_reset_from_a_shell_need_no_service(house: House, until_true: Callable[..., Any]) -> None:
    await _spend_all(house)
    granted = await house.shell("grant", "acme", "api", "5", "--for", "15m")
    assert (granted["seconds"], granted["state"]["remaining"], granted["state"]["source"]) == (900, 5, "store")
    await until_true(house.passes)
    assert await house.left(house.service) == 4
    assert await house.shell("reset", "acme", "api") == {**SEARCH, "reset": True}
    assert await house.left(house.service) == 3


async def test_a_reset_at_the_service_fills_the_bucket_that_gateways_see(
    house: House, until_true: Callable[..., Any]
) -> None:
    await _spend_all(house)
    await house.ask("POST", f"{house.service}/admin/clients/acme/reset", {"rule": "api"})
    await until_true(house.passes)
    assert [await house.passes() for _ in range(3)] == [True, True, False]


async def test_a_batch_at_a_gateway_is_decided_like_its_requests(house: House) -> None:
    assert await house.passes()
    answers = await house.ask("POST", f"{house.ops}/v1/check/batch", [SEARCH] * 3)
    assert [(answer["allowed"], answer["source"]) for answer in answers] == [
        (True, "store"), (True, "store"), (False, "store"),
    ]  # fmt: skip
    assert not await house.passes()
