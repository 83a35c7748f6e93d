"""Two gateway processes, one store: the limit is for the client as a whole."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import cycle
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from limen.admin.repository import Repository

LOG = Path(__file__).parents[3] / "shared" / "data" / "access.log"
LINE = re.compile(r'(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+)')
CAPACITY = 20
HOT = {"id": "hot", "match": {"path": "/hot/{round}"}, "key_by": ["path.round"], "limit": "1/day burst 100"}


@pytest.fixture
async def rules_db(tmp_path: Path) -> str:
    """A database with one rule that gives nothing back while a test runs."""
    url = f"sqlite:///{tmp_path / 'rules.db'}"
    async with Repository(url) as repository, repository.change() as change:
        await change.put_rule("all", f'{{"id": "all", "key_by": ["client"], "limit": "1/day burst {CAPACITY}"}}')
        await change.put_rule("hot", json.dumps(HOT))
    return url


@pytest.fixture
def fleet(limen: Callable[..., Any], valkey_url: str, rules_db: str, upstream: Any) -> list[str]:
    """The URLs of two gateways."""
    arguments = ("gateway", "--upstream", upstream.url, "--store", valkey_url, "--rules-db", rules_db)
    # A patient deadline: this asks whether the count is exact, not what happens when a busy machine is late.
    options = ("--trusted-proxy", "127.0.0.1", "--deadline-ms", "1000", "--gateways", "2")
    return [limen(*arguments, *options, ready="gateway on").url for _ in range(2)]


async def outcomes(
    fleet: list[str], requests: Iterable[tuple[str, str, str]], in_flight: int = 32
) -> Counter[tuple[str, int]]:
    """How many requests of each client got each status; (client, method, path) alternate between the gateways."""
    found: Counter[tuple[str, int]] = Counter()
    work = iter([(base, *request) for base, request in zip(cycle(fleet), requests)])

    async def send(session: aiohttp.ClientSession) -> None:
        for base, client, method, path in work:
            headers = {"X-Forwarded-For": client}
            async with session.request(method, base + path, headers=headers, allow_redirects=False) as response:
                await response.read()
                found[client, response.status] += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*[send(session) for _ in range(in_flight)])
    return found


@pytest.mark.skipif(not LOG.exists(), reason="the sample access log is not part of the repository and is not there")
async def test_a_real_day_of_traffic_gets_exactly_what_the_model_says(fleet: list[str], upstream: Any) -> None:
    parsed = [match.groups() for line in LOG.read_text().splitlines() if (match := LINE.match(line))]
    parsed.sort(key=lambda row: datetime.strptime(row[1], "%d/%b/%Y:%H:%M:%S %z"))
    requests = [(client, method, "/log" + re.sub(r"[^\w/.-]", "", path)) for client, _, method, path in parsed]
    assert len(requests) == 10_000

    found = await outcomes(fleet, requests)

    asked = Counter(client for client, _, _ in requests)
    model = {client: min(count, CAPACITY) for client, count in asked.items()}
    assert {status for _, status in found} == {200, 429}
    assert {client: found[client, 200] for client in asked} == model
    assert {client: found[client, 429] for client in asked} == {c: asked[c] - model[c] for c in asked}
    assert upstream.requests == sum(model.values()), "a refused request never reaches the upstream"


async def test_of_a_thousand_at_once_exactly_the_limit_passes_fifty_times_over(fleet: list[str], upstream: Any) -> None:
    clients = [f"198.18.{number // 250}.{number % 250}" for number in range(1000)]
    for round_number in range(50):
        before = upstream.requests
        found = await outcomes(fleet, [(client, "GET", f"/hot/{round_number}") for client in clients], in_flight=1000)
        passed = sum(count for (_, status), count in found.items() if status == 200)
        assert (round_number, passed, upstream.requests - before) == (round_number, 100, 100)
