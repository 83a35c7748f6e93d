"""A cluster of servers on one machine."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import redis

from limen.testing.servers.server import Server
from limen.testing.servers.waiting import port_nobody_uses, wait_for

__all__ = ["Cluster"]

SLOT_COUNT = 16_384
NODE_TIMEOUT_MS = 1500
MIGRATION_MS = 5000


class Cluster:
    """Primaries, each with its part of the slots, and as many replicas for each as wished.

    Args:
        family: `valkey`, `redis`, or the path of a server program.
        folder: for the files of its servers.
        replicas: of each primary.
        options: more of each server's command line.
        proxied: clients come to each server through a `FaultProxy`, its `proxy`.
        node_timeout_ms: silence after which a node is held for dead. A failover takes about two to three times that.

    Attributes:
        servers: all of them, the first primaries first.
        primaries: those that were primaries when it began.

    Raises:
        MissingExtra, SettingsError: there is no such program.
        AssertionError: it does not come together.
    """

    def __init__(
        self,
        family: str,
        folder: Path,
        replicas: int = 0,
        primaries: int = 3,
        *,
        options: Sequence[str] = (),
        proxied: bool = False,
        node_timeout_ms: int = NODE_TIMEOUT_MS,
    ) -> None:
        common = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms)]
        common += ["--repl-diskless-sync-delay", "0", "--cluster-require-full-coverage", "no"]
        common += ["--cluster-announce-ip", "127.0.0.1", *options]
        self.servers: list[Server] = []
        try:
            for at in range(primaries * (1 + replicas)):
                bus = port_nobody_uses()
                ports = ["--cluster-port", str(bus)]
                self.servers.append(
                    Server(family, folder / str(at), *common, *ports, other_ports=[bus], proxied=proxied)
                )
            self.primaries = self.servers[:primaries]
            self._join()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return "valkey+cluster://" + ",".join(server.address for server in self.servers[:2])

    @property
    def leaders(self) -> list[Server]:
        """Those that are primaries now and can be asked."""
        return [server for server in self.servers if _role(server) == b"master"]

    def id_of(self, server: Server) -> str:
        return str(server.ask("CLUSTER", "MYID").decode())

    def owner(self, slot: int) -> Server:
        """Who has a slot, as the first node that answers sees it."""
        for server in self.servers:
            with contextlib.suppress(redis.RedisError, OSError):
                for first, last, (_, port, *_), *_ in server.ask("CLUSTER SLOTS"):
                    if first <= slot <= last:
                        return next(each for each in self.servers if each.public_port == port)
        raise AssertionError(f"nobody has slot {slot}")

    def owner_in(self, server: Server, slot: int) -> bool:
        """Whether a slot is this server's."""
        return self.owner(slot) is server

    def replica_of(self, primary: Server) -> Server:
        """Who copies a primary."""
        for server in self.servers:
            if server.ask("INFO", "replication").get("master_port") == primary.public_port:
                return server
        raise AssertionError(f"nobody copies {primary.address}")

    def failover(self, primary: Server) -> Server:
        """Let the replica of a primary take over as planned, without loss; the new primary, when it is one."""
        replica = self.replica_of(primary)
        replica.ask("CLUSTER", "FAILOVER")
        wait_for(lambda: replica.ask("ROLE")[0] == b"master", f"{replica.address} takes over")
        return replica

    def half_move(self, slot: int, target: Server) -> Server:
        """Begin to move a slot; its owner until then."""
        source = self.owner(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        return source

    def move_keys(self, slot: int, source: Server, target: Server, count: int = 1000) -> None:
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, MIGRATION_MS, "KEYS", *keys)

    def end_move(self, slot: int, target: Server) -> None:
        """Let the target have it. Who still holds keys of the slot gives it up only when the target has told it."""
        owner = ("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))
        for server in [target, *(each for each in self.leaders if each is not target)]:
            wait_for(partial(server.ask, *owner), f"{server.address} knows who has slot {slot}")

    def move(self, slot: int, target: Server) -> None:
        """Move a slot with its keys."""
        source = self.half_move(slot, target)
        self.move_keys(slot, source, target)
        self.end_move(slot, target)

    def empty(self) -> None:
        for server in self.leaders:
            server.ask("FLUSHALL")

    def heal(self) -> None:
        """Whoever was cut off or hangs takes part again. Who was killed stays away until it is started."""
        for server in self.servers:
            server.heal()
            if server.runs:
                server.resume()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

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

    def _join(self) -> None:
        self._meet()
        self._share_out()
        wait_for(self.agrees, "all nodes know all slots")
        for at, server in enumerate(self.servers[len(self.primaries) :]):
            server.ask("CLUSTER", "REPLICATE", self.id_of(self.primaries[at % len(self.primaries)]))
        wait_for(self.in_step, "every replica is in step")

    def _meet(self) -> None:
        first = self.servers[0]
        for number, server in enumerate(self.servers):
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                server.ask("CLUSTER", "MEET", "127.0.0.1", first.port, *first.other_ports)

    def _share_out(self) -> None:
        count = len(self.primaries)
        for at, server in enumerate(self.primaries):
            first, last = at * SLOT_COUNT // count, (at + 1) * SLOT_COUNT // count - 1
            server.ask("CLUSTER", "ADDSLOTSRANGE", first, last)


def _role(server: Server) -> object:
    """`master`, `slave`; None when it does not say."""
    if server.runs:
        with contextlib.suppress(redis.RedisError, OSError):
            return server.ask("ROLE")[0]
    return None


def _owners(server: Server) -> tuple[tuple[int, int, int], ...]:
    slots = server.ask("CLUSTER SLOTS")
    return tuple(sorted((first, last, primary[1]) for first, last, primary, *_ in slots))
