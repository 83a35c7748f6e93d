"""A process that is told to stop says so, goes on serving for a moment, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from limen.admin.repository import Repository

FOR_EVER = {"LIMEN_DRAIN_S": "300"}


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def rules_db(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rules.db'}"


async def eventually(condition: Callable[[], Awaitable[Any]], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


async def get(http: aiohttp.ClientSession, url: str) -> tuple[int, Any, Any]:
    async with http.get(url) as answer:
        return answer.status, answer.headers, await answer.text()


async def test_told_to_stop_it_says_so_and_goes_on_serving_and_told_twice_it_ends(
    limen: Callable[..., Any], find_port: Callable[[], int], valkey_url: str, rules_db: str, http: Any, upstream: Any
) -> None:
    ops = find_port()
    shared = ("--upstream", upstream.url, "--store", valkey_url, "--rules-db", rules_db, "--ops-port", str(ops))
    gateway = limen("gateway", *shared, ready="gateway on", env=FOR_EVER)
    status, headers, _ = await get(http, gateway.url)
    assert (status, headers.get("Connection")) == (200, None)
    assert (await get(http, f"http://127.0.0.1:{ops}/readyz"))[0] == 200
    gateway.process.send_signal(signal.SIGTERM)

    async def draining() -> bool:
        status, _, text = await get(http, f"http://127.0.0.1:{ops}/readyz")
        return status == 503 and '"status":"draining"' in text

    await eventually(draining)
    for _ in range(3):
        status, headers, text = await get(http, gateway.url)
        assert (status, headers["Connection"], text) == (200, "close", "ok\n")
    assert (await get(http, f"http://127.0.0.1:{ops}/healthz"))[0] == 200
    async with Repository(rules_db) as repository:

        async def told() -> bool:
            return [each.gateway.state for each in (await repository.presence.fleet()).gateways] == ["draining"]

        await eventually(told)
        gateway.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(gateway.process.wait, 20) == 0
        assert (await repository.presence.fleet()).gateways == ()


async def test_told_twice_it_does_not_wait_for_a_request_that_never_ends(
    limen: Callable[..., Any], valkey_url: str, rules_db: str, http: Any
) -> None:
    asked = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(never, "127.0.0.1", 0) as server:
        upstream = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        shared = ("--upstream", upstream, "--store", valkey_url, "--rules-db", rules_db)
        gateway = limen("gateway", *shared, ready="gateway on", env=FOR_EVER)
        request = asyncio.create_task(get(http, gateway.url))
        await asked.wait()
        gateway.process.send_signal(signal.SIGTERM)
        gateway.process.send_signal(signal.SIGINT)
        with pytest.raises(aiohttp.ClientError):
            await request
        assert await asyncio.to_thread(gateway.process.wait, 20) == 0


async def test_a_service_drains_too(limen: Callable[..., Any], rules_db: str, http: Any, tmp_path: Path) -> None:
    service = limen("service", "--store", "memory://", "--rules-db", rules_db, ready="service on", env=FOR_EVER)
    service.process.send_signal(signal.SIGTERM)

    async def draining() -> bool:
        return (await get(http, f"{service.url}/readyz"))[0] == 503

    await eventually(draining)
    status, headers, _ = await get(http, f"{service.url}/admin/rules")
    assert (status, headers["Connection"]) == (200, "close")
    service.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(service.process.wait, 20) == 0
    assert "Traceback" not in (tmp_path / f"stderr-{service.port}.txt").read_text()
