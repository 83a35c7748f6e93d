"""Servers that pause, hang in a script, forget scripts, or answer late to callers that have gone."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.fleet.findings import Part
from tests.faults.fleet.fleet import Fleet
from tests.faults.fleet.row import Row
from tests.faults.fleet.scene import begun
from tests.faults.fleet.spec import Load
from tests.topologies.servers import Cluster, Server

PAUSE_MS = 1500
SPENT_APART = 1_000_000
CLIENTS = 200
QUOTA = 10**9
TURNS = 20_000_000


@contextmanager
def aside(server: Server, *command: Any) -> Iterator[None]:
    """While a command that takes long is under way."""

    def ask() -> None:
        with server.client() as client:
            client.connection_pool.connection_kwargs["socket_timeout"] = 120
            client.execute_command(*command)

    thread = threading.Thread(target=ask)
    thread.start()
    yield
    thread.join()


def test_F06_pause(row: Row, length: Any, cluster: Cluster, tmp_path: Path) -> None:
    row.of(
        f"`CLIENT PAUSE {PAUSE_MS} ALL` on one primary",
        "no decision waits; at most one new connection for each gateway",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10)) as fleet:
        paused = cluster.primaries[0]
        fleet.phase("fault")
        paused.ask("CLIENT", "PAUSE", PAUSE_MS, "ALL")
        fleet.more(PAUSE_MS / 2000)
        fleet.scrape("fault")
        fleet.more(PAUSE_MS / 2000)
        fleet.phase("after")
        closed_s = fleet.until(fleet.up, "every breaker is closed")
        fleet.more(length.pick(1, 10))
        seen = fleet.end()
    anew = seen.connections(paused.address, seen.span("fault")[0])
    row.saw(
        new_connections=f"at most {max(anew.values(), default=0)} for each gateway",
        breakers_closed_after=f"{closed_s:.2f} s",
    )
    row.swift(before=seen.during("before"), meanwhile=seen.during("fault"))
    assert all(count <= 1 for count in anew.values()), anew
    assert seen.metric("limen_breaker_state", "fault", shard=paused.address) == 4
    assert seen.of_shard(seen.during("fault"), 0).sources["local_share"]
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def test_F07_late_replies(row: Row, length: Any, server: Server, tmp_path: Path) -> None:
    wanted = length.pick(20_000, 1_000_000)
    row.of(
        f"`DEBUG SLEEP 1` again and again, one caller in five gives up at a random moment, {wanted:,} decisions",
        "no caller gets the answer of another one; nothing is spent twice",
    )
    rule = {"id": "quota", "capacity": QUOTA, "refill_per_sec": 0, "on_failure": "closed"}
    load = Load(rate=length.pick(500, 800), clients=CLIENTS, zipf=0, cancelled=0.2)
    with begun(server, tmp_path / "fleet", 0, rules=[rule], load=load) as fleet:
        fleet.rest()
        apart(fleet)
        fleet.report()
        fleet.load()
        fleet.phase("fault")
        while sum(fleet.all("decided")) < wanted:
            with aside(server, "DEBUG", "SLEEP", 1):
                fleet.more(0.5)
            fleet.until(fleet.up, "the breakers are closed")
            fleet.more(1)
        fleet.rest()
        fleet.until(fleet.up, "the breakers are closed")
        left = {client: remaining(fleet, client) for client in range(CLIENTS)}
        seen = fleet.end()
    found = seen.during("fault")
    row.saw(decisions=len(found), answered_too_late_or_cancelled=found.reasons["cancelled"] + found.statuses[503])
    assert seen.metric("limen_store_errors_total", kind="timeout")
    judge_verdicts(row, found, left)
    row.swift(meanwhile=found)
    seen.no_accidents()


def apart(fleet: Fleet) -> None:
    """Each client has a range of tokens of its own, so that an answer tells whose it is."""
    for client in range(CLIENTS):
        fleet.until(partial(is_apart, fleet, client), "each client has its range")


def is_apart(fleet: Fleet, client: int) -> bool:
    """Spend what lacks; of an answer that came too late nobody knows whether it was spent, so it is looked again."""
    cost: int = remaining(fleet, client) - (QUOTA - client * SPENT_APART)
    if cost > 0:
        fleet.gateways[0].do("check", f"c{client}", "quota", cost)
    return cost <= 0


def remaining(fleet: Fleet, client: int) -> int:
    found: dict[str, Any] = {}

    def looked() -> bool:
        found.update(fleet.gateways[0].do("check", f"c{client}", "quota", 0))
        return found["source"] == "store"

    fleet.until(looked, "the store says what is left")
    return int(found["remaining"])


def judge_verdicts(row: Row, found: Part, left: dict[int, int]) -> None:
    """Each answer belongs to its client, no two say the same, and what was spent is what was asked for."""
    answered = found.where(lambda each: each.source == "store")
    told = Counter((each.client, each.remaining) for each in answered.found)
    wrong = [each for each in answered.found if (QUOTA - each.remaining) // SPENT_APART != each.client]
    twice = [each for each, count in told.items() if count > 1]
    asked, acknowledged = Counter(each.client for each in found.found), Counter(each.client for each in answered.found)
    spent = {client: QUOTA - client * SPENT_APART - have for client, have in left.items()}
    row.saw(wrong_answers=len(wrong), answers_given_twice=len(twice))
    assert not wrong
    assert not twice
    assert answered.statuses == Counter({200: len(answered)})
    assert all(acknowledged[client] <= spent[client] <= asked[client] for client in left)


def turning(server: Server, seconds: float) -> str:
    """A loop that takes about so long: scripts are told no time that goes on."""
    began = time.monotonic()
    server.ask("EVAL", f"for _ = 1, {TURNS} do end", 0)
    return f"for _ = 1, {int(TURNS * seconds / (time.monotonic() - began))} do end"


def test_F08_stuck_script(row: Row, length: Any, server: Server, tmp_path: Path) -> None:
    seconds = length.pick(3, 20)
    row.of(
        f"a script that has written and then loops for {seconds} s",
        "the store is held to be away: nobody waits; metric and log say that a script does not end",
    )
    loop = f"redis.call('SET', KEYS[1], 1, 'EX', 60) {turning(server, seconds)} return 1"
    with begun(server, tmp_path / "fleet", length.pick(1, 10)) as fleet:
        fleet.phase("fault")
        with aside(server, "EVAL", loop, 1, "stuck"):
            fleet.more(seconds - 0.5)
            fleet.phase("end")
        fleet.phase("after")
        closed_s = fleet.until(fleet.up, "every breaker is closed")
        fleet.more(1)
        seen = fleet.end()
    row.saw(
        breakers_closed_after=f"{closed_s:.2f} s",
        errors_of_kind_busy=int(seen.metric("limen_store_errors_total", kind="busy")),
    )
    said = [line.text for line in seen.lines if "script" in line.text.lower() and line.text.startswith("WARNING")]
    row.saw(the_log_says=said[0] if said else "nothing")
    row.swift(meanwhile=seen.during("fault"))
    assert seen.metric("limen_store_errors_total", kind="busy")
    assert {line.gateway for line in seen.lines if "script" in line.text.lower()} == set(range(4))
    assert seen.during("after").sources["store"]
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def test_F09_scripts_forgotten(row: Row, length: Any, cluster: Cluster, tmp_path: Path) -> None:
    flushes = length.pick(4, 30)
    row.of(
        f"`SCRIPT FLUSH` on every primary each second, {flushes} times",
        "no decision fails; each gateway sends the script once to each server and flush",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10)) as fleet:
        fleet.phase("fault")
        for _ in range(flushes):
            for server in cluster.primaries:
                server.ask("SCRIPT", "FLUSH")
            fleet.more(1)
        seen = fleet.end()
    before, fault = seen.during("before"), seen.during("fault")
    loads = [count for told in seen.reports for count in told["loads"].values()]
    row.saw(
        scripts_sent=f"at most {max(loads)} to each server",
        without_the_store=f"{len(fault.degraded)} of {len(fault)} decisions",
    )
    row.swift(2, meanwhile=fault)
    assert 0 < max(loads) <= flushes
    assert not any(seen.metric("limen_store_errors_total", kind=kind) for kind in ("no_script", "refused"))
    row.undisturbed(before, fault)
    row.bounded(seen, "api", "login")
    seen.no_accidents()
