"""What a preview predicts, and what then happens: a real access log played through a running gateway, twice."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

LOG = Path(__file__).parents[3] / "shared" / "data" / "access.log"
LINE = re.compile(r'(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+)')
LONG = bool(os.environ.get("LIMEN_LONG"))
SPEED = float(os.environ.get("LIMEN_SPEED", 1000 if LONG else 15_000))
"""How much faster than in the log time passes. What a limit says of time passes as fast."""
LINES = int(os.environ.get("LIMEN_LINES", 10_000 if LONG else 1000))
TOKENS, PER_S = (30, 86_400) if LONG else (15, 7 * 86_400)
"""The limit that is predicted, by the time of the log. In the short form it gives little back: machines are late."""
LOOSE = {"key_by": ["ip"], "limit": "1000000/second"}


class Line(NamedTuple):
    """A request of the log, and how many seconds after the first it came."""

    after_s: float
    client: str
    method: str
    path: str


def lines_of_the_log() -> list[Line]:
    """In the order of time."""
    found = [match.groups() for line in LOG.read_text().splitlines() if (match := LINE.match(line))]
    rows = sorted(
        (datetime.strptime(at, "%d/%b/%Y:%H:%M:%S %z").timestamp(), client, method, re.sub(r"[^\w/.-]", "", path))
        for client, at, method, path in found
    )
    return [Line(at - rows[0][0], client, method, path) for at, client, method, path in rows[:LINES]]


class Player:
    """Plays the log through a gateway."""

    def __init__(self, http: aiohttp.ClientSession, url: str, lines: list[Line]) -> None:
        self._http = http
        self._url = url
        self._lines = lines

    async def play(self) -> int:
        """How many requests were denied."""
        loop = asyncio.get_running_loop()
        begun, asked = loop.time(), []
        for line in self._lines:
            wait = begun + line.after_s / SPEED - loop.time()
            if wait > 0.001:
                await asyncio.sleep(wait)
            asked.append(asyncio.create_task(self._ask(line)))
        statuses = await asyncio.gather(*asked)
        assert {200, 429}.issuperset(statuses)
        return statuses.count(429)

    async def _ask(self, line: Line) -> int:
        headers = {"X-Forwarded-For": line.client}
        async with self._http.request(line.method, self._url + line.path, headers=headers) as answer:
            await answer.read()
            return answer.status


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=128)) as session:
        yield session


@pytest.mark.skipif(not LOG.exists(), reason="the sample access log is not part of the repository and is not there")
@pytest.mark.timeout(2 * 90 * 3600 / 100 if LONG else 120)
async def test_a_preview_is_within_a_tenth_of_what_then_happens(
    limen: Callable[..., Any], valkey_url: str, tmp_path: Path, upstream: Any, http: aiohttp.ClientSession
) -> None:
    shared = ("--store", valkey_url, "--rules-db", f"sqlite:///{tmp_path / 'rules.db'}", "--poll-s", "0.5")
    shared += ("--deadline-ms", "1000", "--trusted-proxy", "127.0.0.1")
    gateway = limen("gateway", "--upstream", upstream.url, *shared, ready="gateway on")
    service = limen("service", *shared, "--watch-minutes", "0", ready="service on")
    lines = lines_of_the_log()
    player = Player(http, gateway.url, lines)
    tight = {"key_by": ["ip"], "limit": f"{TOKENS} per {round(PER_S * 1000 / SPEED)}ms"}

    async def admin(method: str, path: str, document: Any = None) -> Any:
        async with http.request(method, f"{service.url}/admin{path}", json=document) as answer:
            found = await answer.json()
            assert answer.status in (200, 201), found
            return found

    async def in_force() -> None:
        async with asyncio.timeout(30):
            while any(each["behind"] for each in (await admin("GET", "/gateways"))["gateways"]):
                await asyncio.sleep(0.1)

    await admin("PUT", "/rules/all", LOOSE)
    await in_force()
    assert await player.play() == 0
    preview = await admin("POST", "/rules/all/preview", tight)
    for _ in range(60):
        if preview["effect"] and preview["effect"]["requests"] == len(lines):
            break
        await asyncio.sleep(0.5)
        preview = await admin("POST", "/rules/all/preview", tight)
    assert preview["effect"], preview["unjudged"]
    assert preview["effect"]["requests"] == len(lines), "everything was sampled"
    predicted = preview["effect"]["newly_denied"]
    await admin("PUT", "/rules/all?confirm=1&reason=as+predicted", tight)
    await in_force()
    denied = await player.play()
    print(f"{len(lines)} requests at {SPEED:g} x: {predicted} predicted, {denied} denied")  # noqa: T201
    assert predicted > len(lines) / 40, "there is something to predict"
    assert abs(denied - predicted) <= 0.1 * predicted
