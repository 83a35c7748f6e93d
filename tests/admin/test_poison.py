"""Ten thousand documents that no rule should be: by the API and by SQL. Nothing crashes, nothing is held up.

The full number is tried with LIMEN_LONG=1.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx2
import pytest

from limen import AsyncLimiter, Request
from limen.admin.http_api import admin_app
from limen.admin.repository import Repository
from limen.admin.service import AdminService
from limen.admin.stored_rules import ruleset_of, text_of
from limen.admin.watcher import Watcher
from limen.errors import LimenError
from limen.rules.ruleset import RuleSet
from tests.poison import poison

log = logging.getLogger(__name__)

COUNT = 10_000 if os.environ.get("LIMEN_LONG") else 200
AT_ONCE = 20
"""Documents between two looks at what works all the while."""


@pytest.fixture
async def client(sqlite_repository: Repository) -> AsyncIterator[httpx2.AsyncClient]:
    async with AsyncLimiter("memory://") as limiter:
        app = admin_app(AdminService(sqlite_repository), limiter)
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            yield client


async def test_F31_the_api_refuses_what_is_no_rule(sqlite_repository: Repository, client: httpx2.AsyncClient) -> None:
    statuses: Counter[int] = Counter()
    slowest = 0.0
    for number, document in enumerate(poison(COUNT)):
        began = time.perf_counter()
        answer = await client.put(f"/admin/rules/fuzz-{number % 10}", content=document.encode(errors="surrogatepass"))
        slowest = max(slowest, time.perf_counter() - began)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, document[:200]
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert len(answer.content) < 50_000
    log.info("%d documents by API: %s, the slowest took %.0f ms", COUNT, dict(statuses), slowest * 1000)
    assert set(statuses) >= {201, 400, 413, 422}
    await assert_in_order(sqlite_repository, client)


async def assert_in_order(repository: Repository, client: httpx2.AsyncClient) -> None:
    """What was accepted is a set of rules, and rules can be changed."""
    snapshot = await repository.snapshot()
    assert ruleset_of(snapshot.rules, snapshot.revision).rules
    assert (
        await client.put("/admin/rules/last", json={"limit": "7/minute", "match": {"path": "/l"}})
    ).status_code == 201
    assert (await client.get("/admin/rules")).status_code == 200


class Following:
    """A process that follows the database."""

    def __init__(self, repository: Repository) -> None:
        self.ruleset = RuleSet()
        self.errors: list[Exception] = []
        self.watcher = Watcher(repository, self.use, lambda directory: None, on_error=self.errors.append)

    def use(self, ruleset: RuleSet) -> None:
        self.ruleset = ruleset

    def limit(self, rule: str) -> int:
        found = self.ruleset.by_id[rule].limit
        return found.capacity if found else -1

    async def look(self) -> None:
        """As at its interval: whatever is wrong with the rules is told, and is no crash."""
        try:
            await self.watcher.load()
        except LimenError as error:
            self.errors.append(error)


class Shell:
    """SQL by hand, on either kind of database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._sqlite: sqlite3.Connection | None = None
        self._postgres: asyncpg.Connection | None = None

    async def __aenter__(self) -> Shell:
        if self.url.startswith("sqlite"):
            self._sqlite = sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None)
        else:
            self._postgres = await asyncpg.connect(self.url)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sqlite is not None:
            self._sqlite.close()
        if self._postgres is not None:
            await self._postgres.close()

    async def run(self, statement: str, *values: Any) -> bool:
        """Whether the database took it."""
        try:
            if self._sqlite is not None:
                self._sqlite.execute(statement, values)
            elif self._postgres is not None:
                for number in range(1, len(values) + 1):
                    statement = statement.replace("?", f"${number}", 1)
                await self._postgres.execute(statement, *values)
        except (sqlite3.Error, UnicodeError, OverflowError, asyncpg.PostgresError, asyncpg.DataError):
            return False
        return True

    async def write(self, rule: str, document: object, version: object = 1) -> bool:
        """Write a document over that of a rule, as a person with a shell does."""
        done = await self.run("UPDATE rules SET document = ?, version = ? WHERE id = ?", document, version, rule)
        return done and await self.run("UPDATE meta SET revision = revision + 1")


async def test_F31_rows_written_by_sql_hold_up_nobody(url: str, repository: Repository) -> None:
    following, slowest, taken = Following(repository), 0.0, 0
    await change(repository, "healthy", 1)
    await change(repository, "victim", 5)
    await following.look()
    async with Shell(url) as shell:
        for number, document in enumerate(poison(COUNT, seed=11, large=False), 1):
            taken += await poisoned(shell, document, number)
            if number % AT_ONCE == 0:
                await change(repository, "healthy", number)
                began = time.perf_counter()
                await following.look()
                slowest = max(slowest, time.perf_counter() - began)
                assert following.limit("healthy") == number, document[:200]
                assert following.ruleset.matching(Request(path="/v1/healthy", client="acme"))[0]
    log.info("%d documents by SQL, %d taken; the slowest look took %.0f ms", COUNT, taken, slowest * 1000)
    assert taken > COUNT / 2


async def poisoned(shell: Shell, document: str, number: int) -> bool:
    """Whether the database took it, as text or as whatever else it may take: bytes, numbers, odd versions."""
    odd: list[Any] = [document, document, document.encode(errors="surrogatepass"), number, 1.5]
    versions: list[Any] = [number, number, -number, 2**40, "abc", 1.5]
    return await shell.write("victim", odd[number % 5], versions[number % 6]) or await shell.write(
        "victim", "{}", number
    )


async def test_F31_the_last_good_version_of_a_poisoned_rule_stays(url: str, repository: Repository) -> None:
    following = Following(repository)
    await change(repository, "healthy", 1)
    await change(repository, "victim", 5)
    await following.look()
    async with Shell(url) as shell:
        assert await shell.write("victim", '{"id": "victim", "limit": "NaN/minute"}', 2)
        await change(repository, "healthy", 2)
        await following.look()
        assert (following.limit("victim"), following.limit("healthy")) == (5, 2)
        assert any("victim" in str(error) for error in following.errors)
        assert await shell.write("victim", '{"id": "victim", "limit": "9/minute"}', 3)
        await following.look()
    assert (following.limit("victim"), following.limit("healthy")) == (9, 2)


async def change(repository: Repository, rule: str, per_minute: int) -> None:
    document = {"id": rule, "match": {"path": f"/v1/{rule}"}, "limit": f"{per_minute}/minute"}
    async with repository.change() as changing:
        await changing.put_rule(rule, text_of(document))
