"""Stores that forget, fill up, lose their sense of time, or get too little processor."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from tests.faults.fleet.firewall import Firewall
from tests.faults.fleet.gateway import hurry
from tests.faults.fleet.row import Row
from tests.faults.fleet.scene import MIX, begun
from tests.faults.fleet.spec import Load
from tests.faults.fleet.starving import starved
from tests.topologies.servers import Cluster, Server

DOWN_S = 0.3
CAPACITY = 100
"""Of the rule `api`."""
REFILL_PER_S = 20
SHIM = Path(__file__).parent / "fleet" / "shifted_clock.c"
STEPS_S = (10, 3600)
US = 1_000_000


def test_F12_replication_cut_then_crash(
    row: Row, length: Any, cluster: Cluster, wall: Firewall, tmp_path: Path
) -> None:
    cut_s = 4
    row.of(
        f"a replica hears nothing of its primary for {cut_s} s, then the primary is killed",
        "what gateways admitted last is brought back to the new primary; the bound holds",
    )
    with begun(cluster, tmp_path / "fleet", length.pick(2, 10)) as fleet:
        primary = cluster.primaries[0]
        replica = cluster.replica_of(primary)
        fleet.phase("cut")
        wall.part(replica.source, primary.port)
        fleet.more(cut_s)
        behind = int(primary.ask("INFO", "replication")["master_repl_offset"]) - int(
            replica.ask("INFO", "replication")["slave_repl_offset"]
        )
        fleet.phase("fault")
        primary.kill()
        takeover_s = fleet.until(lambda: replica.ask("ROLE")[0] == b"master", "the replica has taken over")
        closed_s = fleet.until(fleet.up, "every breaker is closed")
        fleet.settle()
        fleet.phase("after")
        fleet.more(length.pick(2, 10))
        wall.heal()
        seen = fleet.end()
    row.saw(
        replica_was_behind=f"{behind} bytes",
        replica_took_over_after=f"{takeover_s:.1f} s",
        exact_again_after_that=f"{closed_s:.2f} s",
    )
    assert behind > 0
    assert seen.of_shard(seen.during("after"), 0).sources["store"]
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def test_F13_empty_fast_restart(row: Row, length: Any, server: Server, tmp_path: Path) -> None:
    row.of(
        f"`kill -9`, and {DOWN_S} s later the same server again with nothing in its memory",
        "the gateways find that it has forgotten; what it does not know begins with a tenth; the bound holds",
    )
    with begun(server, tmp_path / "fleet", length.pick(3, 20)) as fleet:
        fleet.phase("fault")
        server.kill()
        time.sleep(DOWN_S)  # the fault: so long it is away
        server.start()
        hurry(server.pid)
        closed_s = fleet.until(fleet.up, "every breaker is closed")
        fleet.settle()
        fleet.phase("after")
        fleet.more(length.pick(3, 20))
        seen = fleet.end()
    found = seen.metric("limen_store_memory_lost_total", shard=server.address)
    new = [each for each in seen.of_rule(seen.during("after"), "api").found if each.source == "store"]
    row.saw(exact_again_after=f"{closed_s:.2f} s", gateways_that_declared_the_loss=int(found))
    assert found == 1, "one declares it, the others read that"
    assert new
    assert max(each.remaining for each in new) < CAPACITY, "nobody begins with a full bucket"
    row.bounded(seen, "api", "login")
    seen.no_accidents()


async def test_F17_memory_full_by_a_key_flood(row: Row, length: Any, server: Server) -> None:
    flood, exhausted = length.pick(60_000, 400_000), 500
    room_mb = length.pick(4, 20)
    row.of(
        f"`maxmemory` {room_mb} MB above what is used, `volatile-ttl`, {flood:,} clients that come once",
        "no script fails; of those who are over their limit 99.9 % are still refused",
    )
    server.ask("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    used = int(server.ask("INFO", "memory")["used_memory"])
    server.ask("CONFIG", "SET", "maxmemory", used + room_mb * 1024 * 1024)
    errors: list[str] = []
    rules = [Rule("r", limit="5/hour")]
    async with AsyncLimiter(
        f"valkey://{server.address}", rules, deadline_ms=20_000, observer=_Errors(errors)
    ) as limiter:
        spent = [await limiter.check(f"spent-{at}", "r", 5) for at in range(exhausted)]
        for begin in range(0, flood, 500):
            await asyncio.gather(*(limiter.check(f"flood-{at}", "r") for at in range(begin, begin + 500)))
        limiter._denied.clear()
        again = [await limiter.check(f"spent-{at}", "r") for at in range(exhausted)]
    evicted = int(server.ask("INFO", "stats")["evicted_keys"])
    refused = sum(not each.allowed and each.source == "store" for each in again)
    row.saw(evicted=f"{evicted:,} buckets", still_refused=f"{refused} of {exhausted}", errors=len(errors))
    assert all(each.allowed for each in spent)
    assert evicted > flood / 10, "the memory was full"
    assert not errors
    assert refused >= 0.999 * exhausted


class _Errors:
    """Notes what the store did not decide."""

    def __init__(self, errors: list[str]) -> None:
        self._errors = errors

    def on_decision(self, decision: Any, duration_us: int) -> None:
        """Not looked at."""

    def on_store_error(self, kind: str, shard: str) -> None:
        self._errors.append(kind)


@pytest.fixture
def clocked(
    length: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Server, Callable[[float], None]]]:
    """A server, and a function that sets its clock ahead by so many seconds, or back."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.fail("a C compiler is needed") if os.environ.get("CI") else pytest.skip("a C compiler is needed")
    library, shift = tmp_path / "shifted_clock.so", tmp_path / "shift"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=True)
    shift.write_bytes(struct.pack("<q", 0))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("SHIFTED_BY", str(shift))
    server = Server(length.family, tmp_path / "server")
    monkeypatch.undo()
    hurry(server.pid)

    def set_ahead(seconds: float) -> None:
        with shift.open("r+b") as file:
            file.write(struct.pack("<q", round(seconds * US)))

    yield server, set_ahead
    server.stop()


def test_F18_clock_steps(
    row: Row, length: Any, clocked: tuple[Server, Callable[[float], None]], tmp_path: Path
) -> None:
    server, set_ahead = clocked
    row.of(
        "the clock of the store is set ahead by 10 s and back again, then by an hour and back",
        "ahead gives at most what grows in that time, one full bucket at most; back locks nobody out",
    )
    with begun(server, tmp_path / "fleet", length.pick(2, 10)) as fleet:
        for step_s in STEPS_S:
            told = server.ask("TIME")[0]
            fleet.phase(f"{step_s} s ahead")
            set_ahead(step_s)
            assert server.ask("TIME")[0] - told >= step_s - 1, "the clock does step"
            fleet.more(length.pick(2, 10))
            fleet.phase(f"{step_s} s back")
            set_ahead(0)
            fleet.more(length.pick(2, 10))
            fleet.phase(f"after {step_s} s")
            fleet.more(length.pick(3, 10))
        seen = fleet.end()
    for step_s, earlier in zip(STEPS_S, ("before", f"after {STEPS_S[0]} s"), strict=True):
        extra = min(CAPACITY, REFILL_PER_S * step_s)
        checker = seen.checker("api", seen.during(earlier, f"{step_s} s ahead", f"{step_s} s back"))
        worst = checker.worst()
        over = 0.0 if worst is None else max(0.0, round(float(worst.tokens), 1))
        row.saw(**{f"over the limit, {step_s} s": f"{over:g} of {extra} tokens that grow in it"})
        checker.check(bound_tokens=extra + seen.bound_tokens("api"))
        hottest = seen.during(f"after {step_s} s").where(lambda each: (each.client, each.rule) == (0, 0))
        passed = sum(each.allowed for each in hottest.found)
        span_s = (hottest.found[-1].invoked_us - hottest.found[0].invoked_us) / US
        row.saw(**{f"hot client {step_s} s back": f"{passed} of {len(hottest)} in {span_s:.1f} s"})
        assert passed >= min(len(hottest), REFILL_PER_S * span_s) / 2, "nobody waits for a time that is past"
    seen.no_accidents()


def test_F19_snapshot(row: Row, length: Any, server: Server, tmp_path: Path) -> None:
    keys = length.pick(300_000, 2_000_000)
    row.of(
        f"`BGSAVE` with {keys:,} keys more, again and again",
        "hardly a decision is made without the store",
    )
    with server.client() as client:
        client.execute_command("DEBUG", "POPULATE", keys, "filling", 50)
    with begun(server, tmp_path / "fleet", length.pick(3, 20)) as fleet:
        fleet.phase("fault")
        for _ in range(length.pick(2, 10)):
            server.ask("BGSAVE")
            fleet.until(lambda: not int(server.ask("INFO", "persistence")["rdb_bgsave_in_progress"]), "it is saved")
        fork_us = int(server.ask("INFO", "stats")["latest_fork_usec"])
        seen = fleet.end()
    before, fault = seen.during("before"), seen.during("fault")
    row.saw(
        fork=f"{fork_us / 1000:.1f} ms",
        without_the_store=f"{len(fault.degraded)} of {len(fault)}, before {len(before.degraded)} of {len(before)}",
    )
    row.swift(before=before, meanwhile=fault)
    row.undisturbed(before, fault)
    row.bounded(seen, "api", "login")
    seen.no_accidents()


def test_F20_starved_store(row: Row, length: Any, server: Server, tmp_path: Path) -> None:
    part = 0.02
    row.of(
        f"{part:.0%} of a processor for the store, which is less than it needs",
        "nobody waits; it answers what it can; afterwards everything is as before",
    )
    with begun(server, tmp_path / "fleet", length.pick(2, 10), load=Load(rate=300, mix=MIX)) as fleet:
        with starved(server.pid, part) as how:
            fleet.phase("fault")
            fleet.more(length.pick(4, 60))
            fleet.phase("end")
        closed_s = fleet.until(fleet.up, "every breaker is closed")
        fleet.settle()
        fleet.phase("after")
        fleet.more(length.pick(3, 20))
        seen = fleet.end()
    before, fault, after = seen.during("before"), seen.during("fault"), seen.during("after")
    row.saw(
        how=how,
        decided_by_the_store=f"{fault.sources['store'] / len(fault):.0%}",
        exact_again_after=f"{closed_s:.2f} s",
    )
    row.swift(before=before, meanwhile=fault)
    assert fault.degraded.found, "it was too little"
    assert fault.sources["store"], "it still answered what it could"
    row.undisturbed(before, after)
    row.bounded(seen, "api", "login")
    seen.no_accidents()
