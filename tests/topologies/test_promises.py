"""What every store promises, kept by a cluster and by one server, of both families.

Promises about time are left out: real servers have a time of their own (tests/conformance moves that of the scripts).
"""

from __future__ import annotations

from collections.abc import Iterator

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


def test_a_cluster_keeps_them(cluster: Cluster) -> None:
    assert kept(cluster.url) > len(STORE_PROMISES) / 2


def test_one_server_keeps_them(server: Server) -> None:
    assert kept(f"valkey://{server.address}") > len(STORE_PROMISES) / 2


def kept(url: str) -> int:
    """How many promises were tried; a broken one is an error."""

    def make(clock: ManualClock) -> AsyncStore:
        return open_store(url, clock, "secret", PATIENT_MS)

    return len(STORE_PROMISES) - len(store_conformance(make, moves_time=False))
