"""What every store promises, kept by a cluster and by one server, of both families."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from limen.engine.open_store import open_store
from limen.stores.base import AsyncStore
from limen.testing import STORE_PROMISES, ManualClock, store_conformance
from tests.topologies.servers import Cluster, Server

PATIENT_MS = 20_000


@pytest.fixture(scope="module")
def server(family: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(family, tmp_path_factory.mktemp("single"))
    yield server
    server.stop()


@pytest.mark.parametrize("promise", STORE_PROMISES)
def test_a_cluster_keeps(cluster: Cluster, promise: str) -> None:
    keeps(cluster.url, promise)


@pytest.mark.parametrize("promise", STORE_PROMISES)
def test_one_server_keeps(server: Server, promise: str) -> None:
    keeps(f"valkey://{server.address}", promise)


def keeps(url: str, promise: str) -> None:
    """Of promises about time, another test moves the time of a server."""

    def make(clock: ManualClock) -> AsyncStore:
        return open_store(url, clock, "secret", PATIENT_MS)

    try:
        store_conformance(make, [promise], moves_time=False)
    except Exception as skipped:
        if type(skipped).__name__ != "SkipTest":
            raise
        pytest.skip("the time of a real server does not move at will; tests/conformance moves it")
