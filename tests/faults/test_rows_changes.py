"""What operators do to a cluster on purpose, and a gateway that is busy with itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from limen.stores.valkey.names import Names
from limen.stores.valkey.topology import slot_of
from tests.faults.fleet.findings import Findings
from tests.faults.fleet.row import Row
from tests.faults.fleet.scene import begun
from tests.faults.fleet.spec import Load
from tests.topologies.servers import Cluster

QUOTA = 10**9
COUNTED = [{"id": "quota", "capacity": QUOTA, "refill_per_sec": 0, "on_failure": "closed"}]
"""A rule that shows what is lost: what is left goes down by one with each answer, and never up."""
STALL_S = 0.2


def none_lost(row: Row, seen: Findings) -> None:
    """Hold that no answer was given twice: a token that was lost would be spent again."""
    answered = seen.all.where(lambda each: each.source == "store")
    told = Counter((each.client, each.remaining) for each in answered.found)
    row.saw(tokens_lost=sum(count - 1 for count in told.values()))
    assert max(told.values()) == 1


def test_F10_planned_failover(row: Row, length: Any, cluster: Cluster, tmp_path: Path) -> None:
    row.of("`CLUSTER FAILOVER`", "no token is lost; the store decides again when the servers have changed places")
    load = Load(clients=100)
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10), rules=COUNTED, load=load) as fleet:
        servers_took: list[float] = []
        for at in range(length.pick(1, 5)):
            replica = cluster.replica_of(cluster.owner(0))
            fleet.phase(f"failover {at}")
            replica.ask("CLUSTER", "FAILOVER")
            took_s = fleet.until(lambda replica=replica: cluster.owner_in(replica, 0), "the replica took over")
            fleet.phase(f"after {at}")
            fleet.until(fleet.up, "every breaker is closed")
            fleet.more(2)
            fleet.until(cluster.in_step, "the replicas are in step")
            servers_took.append(took_s)
        seen = fleet.end()
    for at, took_s in enumerate(servers_took):
        lost = seen.of_shard(seen.during(f"failover {at}", f"after {at}"), 0).degraded.found
        span = (max(each.completed_us for each in lost) - min(each.invoked_us for each in lost)) / 1000 if lost else 0.0
        said = f"{len(lost)} decisions within {span:.0f} ms, where the servers took {1000 * took_s:.0f} ms"
        row.saw(**{f"without the store ({at + 1})": said})
        row.swift(**{f"({at + 1})": seen.during(f"failover {at}")})
    none_lost(row, seen)
    seen.no_accidents()


def test_F11_resharding(row: Row, length: Any, cluster: Cluster, tmp_path: Path) -> None:
    count = length.pick(30, 100)
    row.of(
        f"{count} slots with their keys are moved under load, the last one stays half-way",
        "no client notices: nothing is decided without the store, no token is lost",
    )
    load = Load(clients=300)
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10), rules=COUNTED, load=load) as fleet:
        slots = [slot_of(Names(None).key(f"client=c{client}")) for client in range(300)]
        here = list(dict.fromkeys(slot for slot in slots if slot < 16_384 // 3))[:count]
        fleet.phase("fault")
        for at, slot in enumerate(here[:-1]):
            cluster.move(slot, cluster.primaries[1 + at % 2])
        source = cluster.half_move(here[-1], cluster.primaries[1])
        fleet.more(length.pick(2, 10))
        fleet.phase("after")
        cluster.move_keys(here[-1], source, cluster.primaries[1])
        fleet.more(1)
        cluster.end_move(here[-1], cluster.primaries[1])
        fleet.more(1)
        seen = fleet.end()
    fault, before = seen.during("fault", "after"), seen.during("before")
    row.saw(
        slots_moved_with_clients_in_them=len(here), without_the_store=f"{len(fault.degraded)} of {len(fault)} decisions"
    )
    row.swift(3, meanwhile=fault)
    row.undisturbed(before, fault)
    none_lost(row, seen)
    seen.no_accidents()


def test_F24_stalled_event_loop(row: Row, length: Any, cluster: Cluster, tmp_path: Path) -> None:
    stalls = length.pick(3, 20)
    row.of(
        f"the event loop of every gateway is busy for {STALL_S * 1000:.0f} ms, {stalls} times",
        "no breaker opens for it; how late the loop is has a metric of its own",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10)) as fleet:
        fleet.phase("fault")
        for _ in range(stalls):
            fleet.all("stall", STALL_S)
            fleet.more(0.7)
        seen = fleet.end()
    start, _ = seen.span("fault")
    opened = sum(sum(seen.openings(server.address, start).values()) for server in cluster.primaries)
    fault, before = seen.during("fault"), seen.during("before")
    stalled = min(seen.longest_late_ms(gateway, start) for gateway in range(4))
    row.saw(breakers_opened=opened, without_the_store=f"{len(fault.degraded)} of {len(fault)} decisions")
    row.swift(meanwhile=fault)
    in_time = seen.metric("limen_event_loop_lag_seconds_bucket", le="0.05")
    late = seen.metric("limen_event_loop_lag_seconds_count") - in_time
    row.saw(stalls_that_the_metric_shows=int(late))
    assert late >= 4
    assert stalled >= STALL_S * 1000 * 0.9, "the loops were stalled"
    assert opened == 0
    row.undisturbed(before, fault)
    row.bounded(seen, "api", "login")
    seen.no_accidents()
