"""What can go wrong in a minute. Each begins where its function is called and is over where that returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.fleet.firewall import Firewall
from tests.faults.fleet.fleet import Fleet
from tests.faults.fleet.gateway import Gateway
from tests.topologies.servers import SLOT_COUNT, Cluster, Server, wait_for

__all__ = ["FAULTS", "Scene"]

SOME_SLOTS = 20
FLUSHES = 5


class Scene:
    """Where it happens.

    Args:
        cluster: the store.
        fleet: the gateways.
        wall: what is done to packets.
        folder: that of the fleet.
    """

    def __init__(self, cluster: Cluster, fleet: Fleet, wall: Firewall, folder: Path) -> None:
        self.cluster = cluster
        self.fleet = fleet
        self.wall = wall
        self.folder = folder
        self.errors = ""
        """What gateways that are gone wrote to their standard error."""
        self._number = len(fleet.gateways)

    def mortal(self, chance: Random) -> Gateway:
        """A gateway that may end: any but the first, whose memory is watched through everything."""
        return chance.choice(self.fleet.gateways[1:])

    def replace(self, gateway: Gateway) -> Gateway:
        """A new gateway in the place of one that is gone."""
        self.errors += (self.folder / f"gateway-{gateway.number}.err").read_text()
        new = Gateway(self.fleet._spec(self._number))
        self._number += 1
        self.fleet.gateways[self.fleet.gateways.index(gateway)] = new
        new.do("start")
        new.do("load")
        return new

    def mend(self) -> None:
        """All servers run, hear each other, and agree. Raises AssertionError when that takes too long."""
        self.wall.heal()
        self.cluster.heal()
        for server in self.cluster.servers:
            if not server.runs:
                server.start()
        wait_for(self.cluster.agrees, "all nodes agree")
        wait_for(self.cluster.in_step, "every replica is in step")
        self.fleet.until(self.fleet.up, "every breaker is closed")


Fault = Callable[[Scene, float, Random], Any]
FAULTS: dict[str, Fault] = {}


def fault(name: str) -> Callable[[Fault], Fault]:
    """Call it so."""

    def keep(begin: Fault) -> Fault:
        FAULTS[name] = begin
        return begin

    return keep


def one(scene: Scene, chance: Random) -> Server:
    """A primary, by chance; the same one for the same chance and the same roles."""
    return chance.choice(scene.cluster.leaders)


@fault("primary crash")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    lost = one(scene, chance)
    lost.kill()
    time.sleep(seconds)
    lost.start()


@fault("primary killed and started at once")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    one(scene, chance).restart()


@fault("primary hangs")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    hung = one(scene, chance)
    hung.hang()
    time.sleep(seconds)
    hung.resume()


@fault("primary cut off")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    lost = one(scene, chance)
    lost.partition()
    time.sleep(seconds)
    lost.heal()


@fault("resets")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    scene.wall.reset(one(scene, chance).port)
    time.sleep(seconds)
    scene.wall.heal()


@fault("packets lost")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    scene.wall.drop(one(scene, chance).port, per_cent=chance.choice([1, 5, 30]))
    time.sleep(seconds)
    scene.wall.heal()


@fault("client pause")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    one(scene, chance).ask("CLIENT", "PAUSE", 1500, "ALL")


@fault("server asleep")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    one(scene, chance).ask("DEBUG", "SLEEP", 1)


@fault("scripts forgotten")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    for _ in range(FLUSHES):
        for server in scene.cluster.leaders:
            server.ask("SCRIPT", "FLUSH")
        time.sleep(seconds / FLUSHES)


@fault("snapshot")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    one(scene, chance).ask("BGSAVE")


@fault("planned failover")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    scene.cluster.failover(one(scene, chance))


@fault("slots move")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    target = one(scene, chance)
    for slot in chance.sample(range(SLOT_COUNT), SOME_SLOTS):
        if scene.cluster.owner(slot) is not target:
            scene.cluster.move(slot, target)


@fault("whole store down")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    for server in scene.cluster.servers:
        server.kill()
    time.sleep(seconds)
    for server in scene.cluster.servers:
        server.start()


@fault("gateway crash")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    lost = scene.mortal(chance)
    lost.kill()
    scene.replace(lost)


@fault("gateway restarted in order")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    old = scene.mortal(chance)
    old.close()
    scene.replace(old)


@fault("gateway frozen")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    frozen = chance.choice(scene.fleet.gateways)
    frozen.freeze()
    time.sleep(seconds)
    frozen.thaw()


@fault("event loops stalled")
def _(scene: Scene, seconds: float, chance: Random) -> None:
    for gateway in scene.fleet.gateways:
        gateway.do("stall", 0.2)
