"""What a gateway remembers of its traffic: enough to try a change on, and nobody's name."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from limen.admin.repository import Repository
from limen.apps.judging import Judging
from limen.rules.effect import Affected, Effect
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet

CANARY = "canary-4b1d"
SECRET = "the secret of this deployment"
"""Under which neither address below is its own pseudonym, as one of 256 would be."""
KEY = f"key-of-{CANARY}-0123456789"
DOCUMENTS = [
    {"id": "api", "match": {"header": {"x-tier": "gold"}}, "key_by": ["client"], "limit": "1000/day"},
    {"id": "all", "key_by": ["ip"], "limit": "1000/day"},
]
BEFORE = RuleSet([Rule(**each) for each in DOCUMENTS])


@pytest.fixture
async def rules_db(tmp_path: Path) -> str:
    (tmp_path / "rules").mkdir()
    url = f"sqlite:///{tmp_path / 'rules' / 'rules.db'}"
    async with await Repository.open(url, SECRET.encode()) as repository, repository.change() as change:
        for document in DOCUMENTS:
            await change.put_rule(str(document["id"]), json.dumps(document))
        await change.put_client("acme", "free", [KEY])
    return url


async def ask(url: str, times: int, **fields: str) -> None:
    async with aiohttp.ClientSession() as session:
        for number in range(times):
            path = f"/v1/items/{number % 3}?token={CANARY}"
            async with session.get(url + path, headers=fields) as answer:
                assert answer.status == 200


async def judged(rules_db: str, after: RuleSet, requests: int) -> Effect:
    """The effect, when so many requests are known."""
    async with Repository(rules_db, SECRET.encode()) as repository, asyncio.timeout(30):
        while True:
            effect = await Judging(repository)(BEFORE, after)
            if effect is not None and effect.requests >= requests:
                return effect
            await asyncio.sleep(0.1)  # the pace of looking


def database(rules_db: str, statement: str) -> list[Any]:
    with sqlite3.connect(rules_db.removeprefix("sqlite:///")) as connection:
        return connection.execute(statement).fetchall()


async def test_a_change_is_tried_on_what_came_through_a_gateway(
    limen: Callable[..., Any], upstream: Any, valkey_url: str, rules_db: str
) -> None:
    options = ("--upstream", upstream.url, "--store", valkey_url, "--rules-db", rules_db, "--poll-s", "0.3")
    patience = ("--deadline-ms", "1000", "--trusted-proxy", "127.0.0.1")
    secret = {"LIMEN_SECRET": SECRET}
    gateway = await asyncio.to_thread(limen, "gateway", *options, *patience, ready="gateway on", env=secret)
    await ask(gateway.url, 30, **{"X-API-Key": KEY, "X-Tier": "gold", "X-Forwarded-For": "192.0.2.77"})
    await ask(gateway.url, 10, **{"X-Tier": f"gold-{CANARY}", "X-Forwarded-For": "198.51.100.99"})

    after = RuleSet([BEFORE.rules[1], Rule(**{**DOCUMENTS[0], "limit": "1/day burst 20"})])
    effect = await judged(rules_db, after, 40)
    assert (effect.requests, effect.clients, effect.newly_denied, effect.denied_before) == (40, 2, 10, 0)
    assert effect.most == (Affected("acme", "free", 10),), "the database knows its clients by their names"
    assert effect.covered == {"all": 40, "api": 30}

    networks = {"match": {"ip": "198.51.100.0/24"}, "key_by": ["ip"], "limit": "1/day burst 4"}
    effect = await judged(rules_db, RuleSet([*BEFORE.rules, Rule("one", **networks)]), 40)
    assert (effect.newly_denied, effect.rules) == (6, {"one": 6})

    chunks = [zlib.decompress(chunk).decode() for (chunk,) in database(rules_db, "SELECT chunk FROM samples")]
    for secret in (CANARY, KEY, "acme", "192.0.2.77", "198.51.100.99"):
        assert not any(secret in chunk for chunk in chunks), secret


async def test_a_database_that_cannot_be_written_delays_nobody_and_is_counted(
    limen: Callable[..., Any], upstream: Any, valkey_url: str, rules_db: str, find_port: Callable[[], int]
) -> None:
    options = ("--upstream", upstream.url, "--store", valkey_url, "--rules-db", rules_db, "--poll-s", "0.3")
    ops = find_port()
    patience = ("--deadline-ms", "1000", "--ops-port", str(ops))
    secret = {"LIMEN_SECRET": SECRET}
    gateway = await asyncio.to_thread(limen, "gateway", *options, *patience, ready="gateway on", env=secret)
    database(rules_db, "DROP TABLE samples")
    await ask(gateway.url, 20)
    async with aiohttp.ClientSession() as session, asyncio.timeout(30):
        while True:
            async with session.get(f"http://127.0.0.1:{ops}/metrics") as answer:
                lines = dict(line.rsplit(" ", 1) for line in (await answer.text()).splitlines() if line[0] != "#")
            if float(lines["limen_sample_lost_total"]) == float(lines["limen_sample_requests_total"]) == 20:
                break
            await asyncio.sleep(0.1)  # the pace of looking
    await ask(gateway.url, 5)
