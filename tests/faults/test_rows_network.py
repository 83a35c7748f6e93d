"""A network that loses packets, resets connections or cuts gateways off."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.faults.fleet.findings import Findings
from tests.faults.fleet.firewall import Firewall
from tests.faults.fleet.row import Row
from tests.faults.fleet.scene import begun
from tests.faults.fleet.spec import Load
from tests.topologies.servers import Cluster, Server

ATTEMPTS_A_SECOND = 5
GATEWAYS = 4


def test_F04_resets(row: Row, length: Any, cluster: Cluster, wall: Firewall, tmp_path: Path) -> None:
    seconds = length.pick(4, 20)
    row.of(
        f"every packet to one primary is answered with a reset, for {seconds} s",
        "at most five attempts to connect in a second for each gateway and shard, spread at random",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(1, 10)) as fleet:
        refusing = cluster.primaries[0]
        fleet.phase("fault")
        wall.reset(refusing.port)
        fleet.more(seconds)
        fleet.scrape("fault")
        wall.heal()
        fleet.phase("after")
        closed_s = fleet.until(fleet.up, "every breaker is closed")
        fleet.more(1)
        seen = fleet.end()
    start, end = seen.span("fault")
    attempts = seen.connections(refusing.address, start, end)
    a_second = [attempts[gateway] * 1_000_000 / (end - start) for gateway in range(GATEWAYS)]
    row.saw(
        attempts=f"{min(a_second):.1f} to {max(a_second):.1f} a second for each gateway",
        breakers_closed_after=f"{closed_s:.2f} s",
    )
    row.swift(meanwhile=seen.during("fault"))
    assert seen.metric("limen_breaker_state", "fault", shard=refusing.address) == GATEWAYS
    assert min(a_second) > 0
    assert max(a_second) <= ATTEMPTS_A_SECOND
    assert all(spread_out(seen, refusing.address, gateway) for gateway in range(GATEWAYS))
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def spread_out(seen: Findings, address: str, gateway: int) -> bool:
    """Whether the pauses between the attempts of a gateway differ from each other."""
    start, end = seen.span("fault")
    times = [each.at_us for each in seen.attempts if each.address == address and each.gateway == gateway]
    times = [at for at in times if start <= at < end]
    pauses = [after - before for before, after in pairwise(times)]
    return max(pauses) > 1.5 * min(pauses)


def test_F05_loss(row: Row, length: Any, cluster: Cluster, wall: Firewall, tmp_path: Path) -> None:
    seconds = length.pick(2.5, 20)
    row.of(
        f"1, 10 and 30 % of all packets to and from one primary are lost, {seconds:g} s each",
        "misses in proportion, no collapse: the store decides again as before when the loss ends",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(1.5, 10)) as fleet:
        port = cluster.primaries[0].port
        for per_cent in (1, 10, 30):
            fleet.phase(f"{per_cent} %")
            wall.drop(port, per_cent=per_cent)
            fleet.more(seconds)
            wall.heal()
            fleet.phase(f"{per_cent} % healed")
            closed_s = fleet.until(fleet.up, "every breaker is closed")
            fleet.more(1)
        fleet.settle()
        fleet.phase("after")
        fleet.more(length.pick(1.5, 10))
        seen = fleet.end()
    missed = [missing(seen, f"{per_cent} %") for per_cent in (1, 10, 30)]
    row.saw(
        decided_without_the_store=", ".join(f"{100 * part:.1f} %" for part in missed) + " of that shard's decisions"
    )
    row.saw(breakers_closed_after=f"{closed_s:.2f} s", p99_afterwards=f"{seen.during('after').latency()['p99']:.2f} ms")
    row.swift(meanwhile=seen.during("1 %", "10 %", "30 %"))
    assert missed[0] < missed[1] < missed[2], missed
    assert seen.metric("limen_store_errors_total", kind="timeout")
    row.undisturbed(*(seen.of_shard(seen.during(name), 0) for name in ("before", "after")))
    part_cut_off(row, seen, "api", len(seen.reports) - 1)
    part_cut_off(row, seen, "login", 0)
    seen.no_accidents()


def part_cut_off(row: Row, seen: Findings, rule: str, most: int) -> None:
    """Hold that no more was let through than when so many of the gateways are cut off for good."""
    worst = seen.checker(rule).worst_ratio()
    over, may = 0.0 if worst is None else float(worst.ratio), most / GATEWAYS
    row.saw(**{f"over the limit, {rule}": f"{100 * over:.1f} % where {100 * may:.0f} % may be"})
    assert over <= may


def missing(seen: Findings, phase: str) -> float:
    """The part of the decisions about clients of the first shard that were made without the store."""
    part = seen.of_shard(seen.during(phase), 0)
    return len(part.degraded) / len(part)


def test_F26_part_of_the_fleet_cut_off(row: Row, length: Any, server: Server, wall: Firewall, tmp_path: Path) -> None:
    gateways, seconds = length.pick(5, 10), length.pick(4, 30)
    row.of(
        f"what one, then {gateways - 1} of {gateways} gateways send to the store is lost, {seconds} s each",
        "k of N cut off: at most 1 + k/N of the limit; closed rules answer 503 within 1 ms",
    )
    load = Load(rate=length.pick(150, 80), mix=[("api", 0.8, 1), ("login", 0.2, 1)], clients=200)
    few, many = 1, gateways - 1
    with begun(server, tmp_path / "fleet", length.pick(1.5, 10), gateways=gateways, load=load) as fleet:
        for name, count in (("few", few), ("many", many)):
            fleet.phase(name)
            for gateway in fleet.gateways[:count]:
                wall.cut(gateway.group, [server.port])
            fleet.more(seconds)
            wall.heal()
            fleet.phase(f"after {name}")
            fleet.until(fleet.up, "every breaker is closed")
            fleet.more(1)
        seen = fleet.end()
    assert seen.metric("limen_decisions_total", rule="login", outcome="unavailable")
    assert seen.metric("limen_decisions_total", rule="api", source="local_share")
    for name, count in (("few", few), ("many", many)):
        cut_off(row, seen, name, count, gateways)
    seen.no_accidents()


def cut_off(row: Row, seen: Findings, name: str, count: int, gateways: int) -> None:
    """Hold what is promised while so many gateways are cut off."""
    part = seen.during(name)
    lost = part.where(lambda each: each.gateway < count)
    since = seen.span(name)[0]
    opened = seen.first_down(since)
    row.swift(**{f"({count} of {gateways} cut off)": part})
    refused = lost.where(lambda each: each.status == 503 and each.invoked_us > since + opened[each.gateway] * 1000)
    row.saw(**{f"503 of closed rules ({count} of {gateways})": f"p99 {refused.latency()['own_p99']:.2f} ms"})
    assert refused.latency()["own_p50"] < seen.during("before").latency()["own_p50"]
    assert {gateway for gateway in opened if gateway < count} == set(range(count))
    assert part.where(lambda each: each.gateway >= count).sources["store"]
    worst = seen.checker("api", part).worst_ratio()
    over = 0.0 if worst is None else float(worst.ratio)
    row.saw(
        **{f"over the limit ({count} of {gateways})": f"{100 * over:.0f} % where {100 * count / gateways:.0f} % may be"}
    )
    assert over <= count / gateways
    seen.checker("login", part).check()
