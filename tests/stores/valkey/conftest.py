"""Both families of servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis7 import redis_server


@pytest.fixture(params=["Valkey 9", "Redis 7"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty server of each kind."""
    if request.param == "Valkey 9":
        yield request.getfixturevalue("valkey_url")
        return
    with redis_server(tmp_path / "redis") as port:
        yield f"valkey://127.0.0.1:{port}"
