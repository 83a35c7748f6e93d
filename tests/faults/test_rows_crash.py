"""Primaries that crash or hang, one of them or all: a fleet of processes goes on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from limen.stores.valkey.names import Names
from limen.stores.valkey.topology import slot_of
from tests.faults.fleet.findings import Findings
from tests.faults.fleet.fleet import Fleet
from tests.faults.fleet.gateway import hurry
from tests.faults.fleet.row import Row
from tests.faults.fleet.scene import RULES, begun
from tests.faults.fleet.spec import Load
from tests.topologies.servers import NODE_TIMEOUT_MS, Cluster, Server

BREAKER_MS, TIMES = 100, 2
LOST = 0
"""The shard that is lost; the others are not to notice."""
OTHERS = (1, 2)
LOOKS_A_SECOND = 10
SOME_QUESTIONS_S = 0.3
"""A breaker that opens by a reset opens before anybody has asked in vain."""
GIVE_UP_MS = 1500
"""A second of silence, and a random pause before the next attempt."""


def opened_in_time(seen: Findings, address: str, since_us: int, gateways: int) -> float:
    """Hold that each gateway opened the breaker of a server soon after it first had a question to it; the slowest, in
    ms from the fault.

    What is promised and how late its event loop was meanwhile are taken twice: the machine does other things too.
    """
    opened, asked = seen.changed("down", address, since_us), seen.first_question(LOST, since_us)
    assert len(opened) == gateways, opened
    for gateway, took_ms in opened.items():
        late_ms = seen.late_ms(gateway, since_us, since_us + int(took_ms * 1000) + 1)
        unasked_ms = (asked[gateway] - since_us) / 1000
        assert took_ms <= unasked_ms + TIMES * (BREAKER_MS + late_ms), (gateway, took_ms, unasked_ms, late_ms)
    return round(max(opened.values()), 1)


def others_unaffected(row: Row, seen: Findings, phase: str, *shards: int) -> None:
    """Hold that clients of other shards were decided as before."""
    row.undisturbed(*(seen.of_shard(seen.during(name), *shards) for name in ("before", phase)))


def lost_clients(seen: Findings, address: str, since_us: int) -> Any:
    """What clients of the lost shard were answered once breakers were open, without the store."""
    opened = seen.changed("down", address, since_us)
    lost = seen.of_shard(seen.all, LOST).degraded
    return lost.where(lambda each: each.invoked_us > since_us + opened.get(each.gateway, 0) * 1000)


def at_once(row: Row, found: Any, before: Any) -> None:
    """Hold that decisions without the store are faster than those with it."""
    row.saw(p99_without_the_store=f"{found.latency()['own_p99']:.2f} ms")
    assert found.latency()["own_p50"] < before.latency()["own_p50"]


def is_primary(server: Server) -> bool:
    """Whether it thinks so itself: others may not be there to ask."""
    return bool(server.ask("ROLE")[0] == b"master")


def begin_again(servers: list[Server]) -> None:
    """Start servers that were killed."""
    for server in servers:
        server.start()
        hurry(server.pid)


def recover(fleet: Fleet, ready: Any, what: str) -> tuple[float, float]:
    """Seconds until the store is whole again, and from then until every gateway decides by it."""
    return fleet.until(ready, what), fleet.until(fleet.up, "every breaker is closed")


def test_F01_primary_crash(row: Row, length: Any, cluster: Cluster, tmp_path: Path) -> None:
    row.of(
        f"`kill -9` of one primary of three (node timeout {NODE_TIMEOUT_MS / 1000:g} s)",
        "no decision waits; the breaker of that shard opens within 100 ms, then its clients are decided at once; the "
        "other shards notice nothing; the breakers close within 1 s after the replica took over",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10)) as fleet:
        lost, replica = cluster.primaries[LOST], cluster.replica_of(cluster.primaries[LOST])
        fleet.phase("fault")
        lost.kill()
        fleet.until(fleet.away, "the breakers are open")
        fleet.more(SOME_QUESTIONS_S)
        fleet.scrape("fault")
        takeover_s, closed_s = recover(fleet, lambda: is_primary(replica), "the replica took over")
        fleet.settle()
        fleet.phase("after")
        fleet.more(length.pick(2, 10))
        seen = fleet.end()
    since = seen.span("fault")[0]
    row.saw(breaker_open_after=f"{opened_in_time(seen, lost.address, since, 4)} ms")
    row.saw(replica_took_over_after=f"{takeover_s:.1f} s", breakers_closed_after_that=f"{closed_s:.2f} s")
    row.swift(
        before=seen.during("before"),
        meanwhile=seen.during("fault"),
        other_shards=seen.of_shard(seen.during("fault"), *OTHERS),
    )
    at_once(row, lost_clients(seen, lost.address, since), seen.during("before"))
    others_unaffected(row, seen, "fault", *OTHERS)
    assert closed_s * 1000 < NODE_TIMEOUT_MS
    row.undisturbed(seen.during("before"), seen.during("after"))
    assert seen.metric("limen_breaker_state", "fault", shard=lost.address) == 4
    assert seen.metric("limen_store_errors_total", "fault", shard=lost.address)
    assert seen.metric("limen_decisions_total", source="local_share")
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def test_a_client_far_over_its_limit_gains_no_more_by_an_outage(length: Any, cluster: Cluster, tmp_path: Path) -> None:
    """Gateways come back one after the other; the first must not give away what the others have spent meanwhile."""
    lost = cluster.owner(slot_of(Names(None).key("client=c0")))
    replica = cluster.replica_of(lost)
    load = Load(rate=250, zipf=3, mix=[("api", 1, 1)])
    with begun(cluster, tmp_path / "fleet", 2, rules=RULES[:1], load=load) as fleet:
        fleet.phase("fault")
        lost.kill()
        recover(fleet, lambda: is_primary(replica), "the replica took over")
        fleet.settle()
        fleet.phase("after")
        fleet.more(3)
        seen = fleet.end()
    hot = seen.during("fault").where(lambda each: each.client == 0)
    assert len(hot) > 20 * hot.statuses[200], "it asks for far more than it may"
    seen.checker("api").check(bound_tokens=seen.bound_tokens("api"))
    seen.no_accidents()


def test_F02_hung_primary(row: Row, length: Any, cluster: Cluster, tmp_path: Path) -> None:
    long_s = length.pick(3, 8)
    row.of(
        f"SIGSTOP of one primary for 0.9 s, then for {long_s} s",
        "as when it crashes, and at most two new connections for each gateway and pause",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10)) as fleet:
        hung, replica = cluster.primaries[LOST], cluster.replica_of(cluster.primaries[LOST])
        for name, seconds in (("short pause", 0.9), ("long pause", long_s)):
            fleet.phase(name)
            hung.send_signal(signal.SIGSTOP)
            fleet.until(fleet.away, "the breakers are open")
            fleet.scrape(name)
            fleet.more(seconds)
            hung.send_signal(signal.SIGCONT)
            fleet.phase(f"after {name}")
            fleet.until(fleet.up, "every breaker is closed")
            fleet.more(1)
        took_over = is_primary(replica)
        seen = fleet.end()
    for name in ("short pause", "long pause"):
        since, until = seen.span(name)
        row.saw(**{f"breaker open after ({name})": f"{opened_in_time(seen, hung.address, since, 4)} ms"})
        assert seen.metric("limen_breaker_state", name, shard=hung.address) == 4
        anew = seen.connections(hung.address, since, until)
        row.saw(**{f"new connections ({name})": f"at most {max(anew.values(), default=0)} for each gateway"})
        assert all(count <= 2 for count in anew.values()), anew
        row.swift(**{f"({name})": seen.during(name)})
        others_unaffected(row, seen, name, *OTHERS)
    row.saw(replica_took_over=took_over)
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def test_F03_black_hole(row: Row, length: Any, cluster: Cluster, tmp_path: Path) -> None:
    row.of(
        "every packet to and from one primary is lost, that of the other nodes too",
        "as when it crashes; a connection that nothing comes from is given up within a second",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10)) as fleet:
        lost, replica = cluster.primaries[LOST], cluster.replica_of(cluster.primaries[LOST])
        fleet.phase("fault")
        lost.partition()
        fleet.until(fleet.away, "the breakers are open")
        fleet.scrape("fault")
        takeover_s, closed_s = recover(fleet, lambda: is_primary(replica), "the replica took over")
        fleet.settle()
        fleet.phase("after")
        fleet.more(length.pick(2, 10))
        lost.heal()
        fleet.phase("healed")
        fleet.more(length.pick(2, 10))
        seen = fleet.end()
    since, until = seen.span("fault")
    row.saw(breaker_open_after=f"{opened_in_time(seen, lost.address, since, 4)} ms")
    row.saw(replica_took_over_after=f"{takeover_s:.1f} s", breakers_closed_after_that=f"{closed_s:.2f} s")
    given_up_in_time(row, seen, lost.address, since, until)
    assert seen.metric("limen_breaker_state", "fault")
    row.swift(meanwhile=seen.during("fault"), other_shards=seen.of_shard(seen.during("fault"), *OTHERS))
    others_unaffected(row, seen, "fault", *OTHERS)
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def given_up_in_time(row: Row, seen: Findings, address: str, since_us: int, until_us: int) -> None:
    """Hold that each gateway tries a new connection a second after the last sign of life, or soon after that."""
    first: dict[int, float] = {}
    for each in seen.attempts:
        if each.address == address and since_us <= each.at_us < until_us:
            first.setdefault(each.gateway, (each.at_us - since_us) / 1000)
    assert len(first) == 4, first
    row.saw(connection_given_up_after=f"{max(first.values()) / 1000:.2f} s")
    for gateway, took_ms in first.items():
        assert took_ms <= GIVE_UP_MS + seen.late_ms(gateway, since_us, until_us), first


def test_F15_most_primaries_gone(row: Row, length: Any, tmp_path: Path) -> None:
    row.of(
        "two of five primaries killed, all without replicas; then a third: no majority is left, and the others of the "
        "cluster refuse too, once they know it",
        "what is left serves exactly; the clients of the rest are decided locally, or with 503 as their rule says",
    )
    cluster = Cluster(length.family, tmp_path / "cluster", primaries=5)
    for server in cluster.servers:
        hurry(server.pid)
    try:
        with begun(cluster, tmp_path / "fleet", length.pick(2, 10)) as fleet:
            fleet.phase("two gone")
            for server in cluster.primaries[:2]:
                server.kill()
            fleet.more(length.pick(4, 20))
            fleet.phase("majority gone")
            cluster.primaries[2].kill()
            fleet.until(lambda: refuses(cluster.primaries[4]), "the rest refuse")
            fleet.more(0.5)
            fleet.phase("nobody serves")
            fleet.more(length.pick(2, 20))
            fleet.scrape("nobody serves")
            fleet.phase("back")
            begin_again(cluster.primaries[:3])
            whole_s, closed_s = recover(fleet, cluster.agrees, "the cluster is whole")
            fleet.settle()
            fleet.phase("after")
            fleet.more(length.pick(2, 10))
            seen = fleet.end()
    finally:
        cluster.stop()
    row.saw(cluster_whole_after=f"{whole_s:.1f} s", breakers_closed_after_that=f"{closed_s:.2f} s")
    row.swift(two_gone=seen.during("two gone"), nobody_serves=seen.during("nobody serves"))
    others_unaffected(row, seen, "two gone", 2, 3, 4)
    others_unaffected(row, seen, "after", *range(5))
    nobody = seen.during("nobody serves")
    assert not nobody.sources["store"]
    assert seen.metric("limen_breaker_state", "nobody serves") == 4 * 5
    assert seen.metric("limen_degraded", "nobody serves") == 4 * len(RULES)
    assert set(seen.of_rule(nobody, "login").statuses) == {503}
    row.saw(decided_locally=f"{nobody.sources['local_share']} of {len(nobody)}, {nobody.statuses[503]} with 503")
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def refuses(server: Server) -> bool:
    """Whether a node of a cluster does not decide any more."""
    return b"cluster_state:fail" in server.ask("CLUSTER", "INFO")


def test_F16_whole_store_down(row: Row, length: Any, cluster: Cluster, tmp_path: Path) -> None:
    down_s = length.pick(5, 60)
    row.of(
        f"all six servers killed, started again after {down_s} s with nothing left in memory",
        "local rate at most the limit; at most ten looks a second for each gateway and shard; connections come back "
        "spread out; a breaker opens again at most once",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10)) as fleet:
        fleet.phase("fault")
        for server in cluster.servers:
            server.kill()
        fleet.more(down_s)
        fleet.scrape("fault")
        fleet.phase("back")
        begin_again(cluster.servers)
        whole_s, closed_s = recover(fleet, cluster.agrees, "the cluster is whole")
        fleet.settle()
        fleet.phase("after")
        fleet.more(length.pick(3, 20))
        seen = fleet.end()
    row.saw(cluster_whole_after=f"{whole_s:.1f} s", breakers_closed_after_that=f"{closed_s:.2f} s")
    row.swift(meanwhile=seen.during("fault"), when_it_comes_back=seen.during("back", "settling", "after"))
    assert seen.metric("limen_breaker_state", "fault") == 4 * 3
    assert seen.metric("limen_degraded", "fault") == 4 * len(RULES)
    assert seen.metric("limen_settlements_total")
    local_rate_holds(row, seen)
    returns_gently(row, seen, cluster.primaries)
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def local_rate_holds(row: Row, seen: Findings) -> None:
    """Hold that no client got more from all shares together than a tenth of its burst and the rate."""
    start, end = seen.span("fault")
    local = seen.of_rule(seen.during("fault"), "api").where(lambda each: each.source == "local_share" and each.allowed)
    counts: dict[int, int] = {}
    for each in local.found:
        counts[each.client] = counts.get(each.client, 0) + each.cost
    limit: Any = seen.rules[0].limit
    may = limit.capacity / 10 + float(limit.refill_per_sec) * (end - start) / 1_000_000
    row.saw(most_from_all_shares=f"{max(counts.values())} tokens to one client, where {may:.0f} may be")
    assert max(counts.values()) <= may


def returns_gently(row: Row, seen: Findings, primaries: list[Server]) -> None:
    """Hold that nobody storms the servers, neither while they are away nor when they come back."""
    start, back, end = seen.span("fault")[0], seen.span("back")[0], seen.span("after")[1]
    looks = [count for each in primaries for count in seen.connections(each.address, start, back).values()]
    first: dict[tuple[int, str], int] = {}
    for each in seen.attempts:
        if each.answered and back <= each.at_us < end and each.address in {server.address for server in primaries}:
            first.setdefault((each.gateway, each.address), each.at_us // 1000)
    reopened = max(max(seen.openings(server.address, back).values(), default=0) for server in primaries)
    a_second = max(looks, default=0) * 1_000_000 / (back - start)
    row.saw(
        looks=f"at most {a_second:.1f} a second for each gateway and shard",
        opened_again=f"at most {reopened} times for each gateway and shard",
    )
    row.saw(connections_come_back_within=f"{max(first.values()) - min(first.values())} ms")
    assert 0 < a_second <= LOOKS_A_SECOND
    assert len(set(first.values())) > len(first) / 2, "they come one after the other"
    assert reopened <= 1 + seen.stalls(back)
