"""What can be told without moving time holds for stores as they are opened, on one server and on many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from limen.engine.clock import SystemClock
from limen.engine.open_store import open_store
from limen.engine.open_sync import open_sync_store
from limen.stores.base import AsyncStore, Store
from limen.testing import STORE_PROMISES, store_conformance
from tests.testing.servers import LOOSER_UNDER_TWO_SECRETS, PATIENT_MS
from tests.topologies.servers import Cluster, wait_for

SECRETS = pytest.mark.parametrize("previous", [None, "before"], ids=["one secret", "two secrets"])
KINDS = pytest.mark.parametrize("kind", ["for coroutines", "for threads"])


def opened(kind: str, url: str, previous: str | None) -> AsyncStore | Store:
    if kind == "for threads":
        return open_sync_store(url, SystemClock(), ("now", previous), PATIENT_MS, 16, 1000)
    return open_store(url, SystemClock(), "now", PATIENT_MS, previous)


def promised(previous: str | None) -> list[str]:
    looser = LOOSER_UNDER_TWO_SECRETS if previous else {}
    return [promise for promise in STORE_PROMISES if promise not in looser]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster("valkey", tmp_path_factory.mktemp("cluster"))
    wait_for(cluster.agrees, "all nodes agree")
    yield cluster
    cluster.stop()


@KINDS
@SECRETS
def test_one_server_keeps_its_promises(kind: str, previous: str | None, valkey_url: str) -> None:
    store_conformance(lambda _: opened(kind, valkey_url, previous), promised(previous), moves_time=False)


@KINDS
@SECRETS
def test_a_cluster_keeps_its_promises(kind: str, previous: str | None, cluster: Cluster) -> None:
    store_conformance(lambda _: opened(kind, cluster.url, previous), promised(previous), moves_time=False)
