"""Rules databases of both kinds."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limen.admin.repository import Repository


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/rules.db"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, sqlite_url: str) -> str:
    """An empty database of each kind in turn."""
    if request.param == "sqlite":
        return sqlite_url
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def repository(url: str) -> AsyncIterator[Repository]:
    async with await Repository.open(url, now=lambda: 1_700_000_000.9) as opened:
        yield opened


@pytest.fixture
async def sqlite_repository(sqlite_url: str) -> AsyncIterator[Repository]:
    async with await Repository.open(sqlite_url) as opened:
        yield opened
