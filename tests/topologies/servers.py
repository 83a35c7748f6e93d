"""Clusters, sentinels and single servers of both families, as the kit for users has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from limen.testing import servers
from limen.testing.servers.cluster import NODE_TIMEOUT_MS, SLOT_COUNT
from limen.testing.servers.waiting import port_nobody_uses
from tests import redis7
from tests.conftest import buckets_in

__all__ = [
    "NODE_TIMEOUT_MS",
    "SLOT_COUNT",
    "Cluster",
    "Server",
    "bucket_count",
    "port_nobody_uses",
    "program",
    "wait_for",
]

wait_for = servers.wait_for


def program(family: str) -> str:
    """The server of a family; skips, or fails under CI, where it is not installed."""
    return redis7._program() if family == "redis" else servers.program(family)


def bucket_count(server: servers.Server) -> int:
    """How many keys of buckets and slots it has."""
    with server.client() as client:
        return len(buckets_in(client))


class Server(servers.Server):
    """One process, to ask, hang, kill and start again."""

    def __init__(self, family: str, folder: Path, *options: str, **more: Any) -> None:
        super().__init__(program(family), folder, *options, **more)


class Cluster(servers.Cluster):
    """Primaries, each with its part of the slots, and as many replicas for each as wished."""

    def __init__(self, family: str, folder: Path, replicas: int = 0, primaries: int = 3, **more: Any) -> None:
        super().__init__(program(family), folder, replicas, primaries, **more)
