"""A network that falls apart into two: a primary and half of the gateways are alone on the smaller side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.faults.fleet.findings import Findings
from tests.faults.fleet.firewall import Firewall
from tests.faults.fleet.fleet import SETTLED_S, Fleet
from tests.faults.fleet.row import Row
from tests.faults.fleet.scene import begun
from tests.faults.fleet.spec import Load
from tests.topologies.servers import Cluster, Server

GATEWAYS = 4
ALONE = 2
"""Gateways on the smaller side: the first ones."""
RULES: list[dict[str, Any]] = [
    {"id": "api", "limit": "20/second"},
    {"id": "login", "limit": "10/second", "on_failure": "closed"},
]
STRESSED = 0.1
SHARD = 0
"""Whose primary is with them."""


def fall_apart(wall: Firewall, cluster: Cluster, fleet: Fleet) -> None:
    """The first primary and the first gateways hear each other, and nobody else hears them."""
    lost, *others = cluster.servers
    groups = f"{fleet.gateways[0].group}-{fleet.gateways[ALONE - 1].group}"
    for port in ports(lost):
        wall._add("OUTPUT", "-p", "tcp", "--dport", str(port), "-m", "owner", "!", "--gid-owner", groups, "-j", "DROP")
        for other in others:
            wall._add("OUTPUT", "-p", "tcp", "--sport", str(port), "-d", other.source, "-j", "DROP")
    wall._add("OUTPUT", "-p", "tcp", "-s", lost.source, "-j", "DROP")
    for port in (port for other in others for port in ports(other)):
        wall._add("OUTPUT", "-p", "tcp", "--dport", str(port), "-m", "owner", "--gid-owner", groups, "-j", "DROP")


def ports(server: Server) -> list[int]:
    return [server.port, *server.other_ports]


def test_F14_split_brain(row: Row, length: Any, cluster: Cluster, wall: Firewall, tmp_path: Path) -> None:
    seconds = length.pick(6, 40)
    row.of(
        f"one primary of three and {ALONE} of {GATEWAYS} gateways hear nobody but each other, for {seconds} s after "
        "the others have a new primary",
        "the smaller side stops to accept; meanwhile at most 1 + k/N of the limit",
    )
    load = Load(mix=[("api", 0.8, 1), ("login", 0.2, 1)], clients=100)
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10), gateways=GATEWAYS, load=load, rules=RULES) as fleet:
        lost, replica = cluster.primaries[SHARD], cluster.replica_of(cluster.primaries[SHARD])
        fleet.phase("apart")
        fall_apart(wall, cluster, fleet)
        takeover_s = fleet.until(lambda: replica.ask("ROLE")[0] == b"master", "the others have a new primary")
        refused_s = fleet.until(lambda: refused_alone(fleet, lost), "the primary that is alone refuses")
        fleet.more(SETTLED_S)
        fleet.phase("two sides")
        fleet.more(seconds)
        fleet.phase("healed")
        wall.heal()
        closed_s = fleet.until(lambda: cluster.agrees() and fleet.up(), "every breaker is closed")
        fleet.settle()
        fleet.phase("after")
        fleet.more(length.pick(2, 10))
        seen = fleet.end()
    row.saw(replica_took_over_after=f"{takeover_s:.1f} s", smaller_side_refused_after=f"{takeover_s + refused_s:.1f} s")
    row.saw(exact_again_after=f"{closed_s:.1f} s")
    nobody_accepts_alone(row, seen)
    at_most_one_and_a_half(row, seen)
    row.swift(apart=seen.during("apart"), two_sides=seen.during("two sides"))
    row.undisturbed(seen.during("before"), seen.during("after"))
    seen.no_accidents()


def refused_alone(fleet: Fleet, lost: Server) -> bool:
    """Whether the primary that is alone has said that it refuses, and no gateway there holds it to be up."""
    state = (lost.folder / "log").read_text().rpartition("Cluster state changed: ")[2]
    said = state.startswith("fail")
    return said and all(gateway.do("shards").get(lost.address) != "up" for gateway in fleet.gateways[:ALONE])


def nobody_accepts_alone(row: Row, seen: Findings) -> None:
    """Hold that on the smaller side nothing is decided by the store, and on the other side everything is."""
    part = seen.during("two sides")
    alone = part.where(lambda each: each.gateway < ALONE)
    assert not alone.sources["store"]
    assert {each.status for each in seen.of_rule(alone, "login").found} <= {503, 429}
    before, others = (each.where(lambda each: each.gateway >= ALONE) for each in (seen.during("before"), part))
    row.undisturbed(before, others)
    row.saw(
        smaller_side=f"{alone.sources['local_share']} of {len(alone)} decided locally, {alone.statuses[503]} with 503"
    )


def at_most_one_and_a_half(row: Row, seen: Findings) -> None:
    """Hold the bound: k/N of the limit besides.

    In the shard whose primary was alone, what it admitted until it refused is not known to the new one: once, and at
    most a whole bucket.
    """
    limit: Any = seen.rules[0].limit
    most = 0.0
    for name, shards, lost_tokens in (("other shards", (1, 2), 0), ("that shard", (SHARD,), limit.capacity)):
        part = seen.of_shard(seen.during("apart", "two sides"), *shards)
        worst = seen.checker("api", part).worst_ratio()
        may = ALONE / GATEWAYS + (0.0 if worst is None else lost_tokens / float(worst.allowed))
        over = 0.0 if worst is None else worst.ratio
        row.saw(**{f"over the limit ({name})": f"{100 * over:.0f} % where {100 * may:.0f} % may be"})
        assert over <= may
        most = max(most, over)
    assert most > STRESSED, "clients had both sides give them what they could"
    seen.checker("login", seen.of_shard(seen.during("apart", "two sides"), 1, 2)).check()
