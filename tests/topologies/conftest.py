"""A cluster for each test process and family of servers; a test that breaks one makes its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from limen.engine.aio import AsyncLimiter
from tests.topologies.servers import Cluster, wait_for

FAMILIES = ["valkey", "redis"]
PATIENT_MS = 20_000


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def running_cluster(family: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(family, tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    """Three primaries, empty, which agree about who owns what."""
    wait_for(running_cluster.agrees, "all nodes agree")
    running_cluster.empty()
    return running_cluster


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Awaitable[AsyncLimiter]]]:
    """`await opened(url, rules, **options)`: a limiter that is closed after the test."""
    limiters: list[AsyncLimiter] = []

    async def open_one(url: str, rules: Any, **options: Any) -> AsyncLimiter:
        limiters.append(AsyncLimiter(url, rules, **{"deadline_ms": PATIENT_MS, **options}))
        await limiters[-1].start()
        return limiters[-1]

    yield open_one
    for limiter in limiters:
        await limiter.close()
