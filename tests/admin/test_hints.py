"""A change is heard of at once where PostgreSQL can tell, and a lost connection costs nothing but time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from limen.admin.hints import Hints, hints_for
from limen.admin.repository import Repository
from limen.admin.watcher import Watcher
from limen.rules.ruleset import RuleSet

Until = Callable[[Callable[[], object]], Awaitable[None]]
LIMIT = '{"id": "a", "limit": "1/minute"}'


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limen.admin.hints.RETRY_S", 0.02)
    monkeypatch.setattr("limen.admin.hints.SPREAD_S", 0.0)


class Counter:
    def __init__(self) -> None:
        self.hints = 0

    def __call__(self) -> None:
        self.hints += 1


async def put(repository: Repository, **how: Any) -> None:
    async with repository.change(**how) as change:
        await change.put_rule("a", LIMIT)


async def test_every_change_is_a_hint_and_what_is_none_is_not(postgres_url: str, until: Until) -> None:
    heard = Counter()
    async with await Repository.open(postgres_url) as repository, Hints(postgres_url, heard) as hints:
        await until(lambda: hints.listening and heard.hints == 1)
        await put(repository)
        await until(lambda: heard.hints == 2)
        async with repository.change(counter="standing") as change:
            change.record("test", "standing")
        await until(lambda: heard.hints == 3)
        await put(repository, dry_run=True)
        with pytest.raises(RuntimeError):
            await fail(repository)
        async with repository.change(counter=None) as change:
            change.record("test", "nothing that gateways need to know")
        await put(repository)
        await until(lambda: heard.hints > 3)
        assert heard.hints == 4


async def fail(repository: Repository) -> None:
    async with repository.change() as change:
        await change.put_rule("a", LIMIT)
        raise RuntimeError


async def test_a_watcher_that_is_poked_by_hints_does_not_wait_for_its_next_look(
    postgres_url: str, until: Until
) -> None:
    seen: list[RuleSet] = []
    async with await Repository.open(postgres_url) as writer, await Repository.open(postgres_url) as reader:
        watcher = Watcher(reader, seen.append, lambda clients: None, on_error=print, interval_s=3600)
        async with watcher, Hints(postgres_url, watcher.poke) as hints:
            await watcher.first_load(30)
            await until(lambda: hints.listening)
            await put(writer)
            await until(lambda: "a" in seen[-1].by_id)


async def test_F33_a_connection_that_was_killed_is_made_anew_and_then_somebody_looks(
    postgres_url: str, until: Until
) -> None:
    heard = Counter()
    async with await Repository.open(postgres_url) as repository, Hints(postgres_url, heard) as hints:
        await until(lambda: hints.listening and heard.hints == 1)
        for time in range(2, 5):
            await kill_listeners(postgres_url)
            await until(lambda time=time: heard.hints >= time and hints.listening)
        before = heard.hints
        await put(repository)
        await until(lambda: heard.hints > before)


async def kill_listeners(url: str) -> None:
    admin = await asyncpg.connect(url)
    listening = "pid <> pg_backend_pid() AND query LIKE 'LISTEN%'"
    await admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {listening}")
    await admin.close()


async def test_a_connection_that_is_cut_off_without_a_word_is_found_out(
    postgres_url: str, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("limen.admin.hints.PING_S", 0.02)
    heard = Counter()
    asked: list[str] = []
    real = asyncpg.Connection.execute

    async def execute(self: Any, query: str, *rest: Any, **more: Any) -> Any:
        asked.append(query)
        if asked.count("SELECT 1") == 3 and query == "SELECT 1":
            raise TimeoutError
        return await real(self, query, *rest, **more)

    monkeypatch.setattr(asyncpg.Connection, "execute", execute)
    async with await Repository.open(postgres_url), Hints(postgres_url, heard):
        await until(lambda: heard.hints == 2)
    assert asked.count("SELECT 1") >= 3


async def test_nobody_is_troubled_by_a_database_that_is_away(until: Until) -> None:
    heard = Counter()
    hints = Hints("postgresql://127.0.0.1:1/nowhere", heard)
    async with hints:
        await asyncio.sleep(0)
        await until(lambda: not hints.listening)
    assert heard.hints == 0


def test_sqlite_tells_nobody() -> None:
    assert hints_for("sqlite:///rules.db", lambda: None) is None
    assert hints_for("postgresql://localhost/x", lambda: None) is not None
