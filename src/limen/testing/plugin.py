"""Fixtures for pytest: time to move, real servers to break. pytest finds them by itself where Limen is installed.

Nothing is loaded or started before a test asks for it. `-p no:limen` leaves them out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from limen.testing import FaultProxy, ManualClock
    from limen.testing.servers import Cluster, Server

__all__ = ["limen_clock", "limen_cluster", "limen_proxy", "limen_store"]


@pytest.fixture
def limen_clock() -> ManualClock:
    """Time that moves when the test says so: `AsyncLimiter(…, clock=limen_clock)`."""
    from limen.testing import ManualClock

    return ManualClock()


@pytest.fixture(scope="session")
def _limen_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of this process."""
    from limen.testing.servers import Server

    server = Server("valkey", tmp_path_factory.mktemp("limen-store"))
    yield server
    server.stop()


@pytest.fixture
def limen_store(_limen_server: Server) -> Iterator[Server]:
    """A real Valkey, empty: its `url` is that of a store. It may be hung, killed and cut off; the next test gets a
    whole one. Needs limen[embedded]."""
    _mend(_limen_server)
    _limen_server.ask("FLUSHALL")
    yield _limen_server
    _mend(_limen_server)


def _mend(server: Server) -> None:
    server.heal()
    if server.runs:
        server.resume()
    else:
        server.start()


@pytest.fixture
def limen_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cluster]]:
    """`limen_cluster(primaries=3, replicas=1, family="valkey", …)`: a real cluster; arguments as those of
    `limen.testing.servers.Cluster`. It takes some three seconds to start. Needs limen[embedded]."""
    with contextlib.ExitStack() as started:

        def start(primaries: int = 3, replicas: int = 0, family: str = "valkey", **options: Any) -> Cluster:
            from limen.testing.servers import Cluster

            cluster = Cluster(family, tmp_path_factory.mktemp("limen-cluster"), replicas, primaries, **options)
            started.callback(cluster.stop)
            return cluster

        yield start


@pytest.fixture
def limen_proxy() -> Iterator[Callable[..., FaultProxy]]:
    """`limen_proxy(url, seed=0)`: a `FaultProxy` in front of a server, in a thread of its own."""
    with contextlib.ExitStack() as started:

        def start(target: str | tuple[str, int], **options: Any) -> FaultProxy:
            from limen.testing import FaultProxy

            return started.enter_context(FaultProxy.in_thread(target, **options))

        yield start
