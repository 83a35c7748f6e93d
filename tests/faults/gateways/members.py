"""Gateways that a test starts, freezes, kills and asks."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from limen.admin.repository import Repository

__all__ = ["POLL_S", "Member", "eventually", "http", "member", "put", "rules_db"]

POLL_S = 0.2


async def put(rules_db: str, rule_id: str, **fields: Any) -> None:
    async with Repository(rules_db) as repository, repository.change() as change:
        await change.put_rule(rule_id, json.dumps({"id": rule_id, **fields}))


async def eventually(condition: Callable[[], Awaitable[Any]], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


@pytest.fixture
def rules_db(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rules.db'}"


class Member:
    """A gateway with the port of its operators, which can be started anew on the same ports."""

    def __init__(self, start: Callable[..., Any], http: aiohttp.ClientSession, find_port: Callable[[], int]) -> None:
        self._start = start
        self._http = http
        self.ports = find_port(), find_port()
        self.running: Any = None

    def begin(self) -> None:
        port, ops = self.ports
        self.running = self._start("--ops-port", str(ops), port=port)

    async def stop(self, number: signal.Signals) -> None:
        self.running.process.send_signal(number)
        await asyncio.to_thread(self.running.process.wait, 30)

    async def get(self, path: str) -> tuple[int, Any]:
        async with self._http.get(f"http://127.0.0.1:{self.ports[0]}{path}") as answer:
            await answer.read()
            return answer.status, answer.headers

    async def ready(self) -> bool:
        try:
            async with self._http.get(f"http://127.0.0.1:{self.ports[1]}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def metric(self, name: str) -> float:
        async with self._http.get(f"http://127.0.0.1:{self.ports[1]}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@pytest.fixture
def member(
    limen: Callable[..., Any], upstream: Any, rules_db: str, http: aiohttp.ClientSession, find_port: Callable[[], int]
) -> Callable[..., Member]:
    """`member(store, options…)`: a gateway that is running."""

    def make(store: str, *options: str, database: str = rules_db, poll_s: float = POLL_S, **environment: str) -> Member:
        shared = ("--upstream", upstream.url, "--store", store, "--rules-db", database, "--poll-s", str(poll_s))

        def start(*more: str, port: int) -> Any:
            return limen("gateway", *shared, *options, *more, ready="gateway on", port=port, env=environment)

        made = Member(start, http, find_port)
        made.begin()
        return made

    return make
