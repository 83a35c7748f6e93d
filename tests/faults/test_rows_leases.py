"""Gateways that hold leases and crash or freeze; and a client far over its limit."""

from __future__ import annotations

import struct
import time
from collections import Counter
from pathlib import Path
from typing import Any

import redis

from limen.core.lease import LeaseTerms
from limen.stores.valkey.names import Names, field_of
from tests.faults.fleet.findings import Findings, Part
from tests.faults.fleet.fleet import Fleet
from tests.faults.fleet.row import Row
from tests.faults.fleet.scene import begun
from tests.faults.fleet.spec import Load
from tests.topologies.servers import Server

GATEWAYS, CLIENTS = 4, 2
CAPACITY, REFILL = 1500, 5
LENT = [{"id": "api", "capacity": CAPACITY, "refill_per_sec": REFILL, "lease": "auto"}]
BUSY = Load(rate=200, clients=CLIENTS, zipf=0)
MOST_HELD = CLIENTS * LeaseTerms().most(CAPACITY) // GATEWAYS
EPOCH_S = 1_735_689_600
FORGOTTEN_S = 2.0
BOOKS = struct.Struct("<8sddd")
PATIENT_MS = 500
"""What an answer that came too late took is lost too; that is not what is counted here."""
FRESH_S = 1.0
"""A refusal is remembered for a second at most."""


def on_loan(server: Server, holder: bytes) -> int:
    """Tokens that a gateway holds, as the books of the store say."""
    with redis.Redis(port=server.port) as store:
        seconds, microseconds = store.time()
        now_us = (seconds - EPOCH_S) * 1_000_000 + microseconds
        keys = [Names(None).key(f"client=c{client}") for client in range(CLIENTS)]
        books = b"".join(store.hget(key, field_of("api leases")) or b"" for key in keys)
    return sum(int(tokens) for name, _, tokens, ends in BOOKS.iter_unpack(books) if name == holder and ends > now_us)


def spent_all(fleet: Fleet) -> bool:
    """Whether the buckets of all clients are empty."""
    looks = [fleet.gateways[-1].do("check", f"c{client}", "api", 0) for client in range(CLIENTS)]
    return all(look["remaining"] < REFILL for look in looks)


def lost(seen: Findings) -> int:
    """Tokens that were there and that nobody was given, over all clients."""
    found = [each for each in seen.all.found if each.cost]
    span_s = (found[-1].completed_us - found[0].invoked_us) / 1_000_000
    return CLIENTS * int(CAPACITY + REFILL * span_s) - sum(each.cost for each in found if each.allowed)


def test_F22_gateway_crash_with_leases(row: Row, length: Any, server: Server, tmp_path: Path) -> None:
    row.of(
        "`kill -9` of one gateway of four that holds leases",
        f"nobody gets more than the limit and what may be on loan; what it held is lost, and the books of the store "
        f"forget it within {FORGOTTEN_S:g} s",
    )
    with begun(server, tmp_path / "fleet", length.pick(1, 2), rules=LENT, load=BUSY, deadline_ms=PATIENT_MS) as fleet:
        dies = fleet.gateways[0]
        dies.do("rest")
        fleet.report()
        held, holder = dies.do("call", "leases.left"), bytes.fromhex(dies.do("call", "leases.holder.hex"))
        fleet.phase("fault")
        dies.kill()
        killed = time.monotonic()
        fleet.until(lambda: not on_loan(server, holder), "the books forget the dead")
        forgotten_s = time.monotonic() - killed
        fleet.until(lambda: spent_all(fleet), "every client has spent all")
        fleet.phase("after")
        fleet.more(length.pick(1, 10))
        seen = fleet.end()
    assert 0 < held <= MOST_HELD
    assert forgotten_s <= FORGOTTEN_S
    row.saw(held=f"{held} tokens", lost=f"{lost(seen)} tokens", forgotten_after=f"{forgotten_s:.2f} s")
    assert lost(seen) <= held + CLIENTS * REFILL * FRESH_S
    assert seen.metric("limen_decisions_total", source="lease") > 0
    row.bounded(seen, "api")
    seen.no_accidents()


def test_F23_frozen_gateway_with_leases(row: Row, length: Any, server: Server, tmp_path: Path) -> None:
    asleep_s = length.pick(2.5, 30)
    row.of(
        f"SIGSTOP of a gateway that holds leases, SIGCONT {asleep_s:g} s later",
        "nothing is spent of a lease that has run out: the first request of each client asks the store",
    )
    rules = [{"id": "api", "capacity": 20_000, "refill_per_sec": 100, "lease": "auto"}]
    with begun(server, tmp_path / "fleet", length.pick(1, 5), rules=rules, load=BUSY) as fleet:
        sleeps = fleet.gateways[0]
        fleet.until(lambda: sleeps.do("call", "leases.left"), "it holds a lease")
        fleet.phase("fault")
        sleeps.freeze()
        fleet.more(asleep_s)
        fleet.phase("after")
        sleeps.thaw()
        fleet.more(length.pick(1, 10))
        seen = fleet.end()
    mine = seen.all.where(lambda each: each.gateway == sleeps.number)
    since_us = seen.span("after")[0]
    first = {each.client: each for each in reversed(mine.found) if each.invoked_us > since_us}
    row.saw(spent_from_leases=mine.sources["lease"], first_after_it=sorted(each.source for each in first.values()))
    assert mine.sources["lease"] > 10
    assert len(first) == CLIENTS
    assert all(each.source != "lease" for each in first.values())
    assert seen.during("after").where(lambda each: each.gateway == sleeps.number).sources["lease"], "it borrows anew"
    row.bounded(seen, "api")
    seen.no_accidents()


HOT = 0
NEIGHBOURS = 200
"""Clients from this one on ask seldom enough."""


def test_F29_hot_client(row: Row, length: Any, server: Server, tmp_path: Path) -> None:
    row.of(
        "one client asks some hundred times as often as it may, at every gateway",
        "it is refused by the gateways: each asks the store in vain once for each token that grows back, or once a "
        "second; nobody else notices",
    )
    rules = [{"id": "api", "limit": "1/second burst 20"}]
    calm, crowd = Load(rate=300, clients=3000, zipf=0), {"zipf": 1.5, "clients": 10_000, "rate": 400}
    with begun(server, tmp_path / "fleet", length.pick(1, 10), rules=rules, load=calm) as fleet:
        fleet.phase("it begins")
        fleet.load(**crowd)
        fleet.more(1)
        fleet.phase("fault")
        fleet.more(length.pick(4, 60))
        fleet.phase("end")
        seen = fleet.end()
    fault, (since_us, until_us) = seen.during("fault"), seen.span("fault")
    seconds = (until_us - since_us) / 1_000_000
    hot = fault.where(lambda each: each.client == HOT)
    neighbours = fault.where(lambda each: each.client >= NEIGHBOURS)
    refused = hot.where(lambda each: not each.allowed)
    asked = Counter(each.gateway for each in refused.found if each.source == "store")
    row.saw(
        asks=f"{len(hot) / seconds:.0f} times a second",
        refused_without_the_store=f"{100 * refused.sources['deny_cache'] / len(refused):.2f} %",
        asked_in_vain=f"at most {max(asked.values()) / seconds:.2f} times a second by a gateway",
    )
    assert set(asked) == set(range(GATEWAYS))
    assert max(asked.values()) <= seconds / FRESH_S + 2
    assert len(refused) > 100 * sum(asked.values()), "it was tried"
    unaffected(row, seen, neighbours)
    row.bounded(seen, "api")
    seen.no_accidents()


def unaffected(row: Row, seen: Findings, neighbours: Part) -> None:
    """Hold that others are decided by the store as before, and allowed."""
    before = seen.during("before")
    row.swift(before=before, neighbours=neighbours)
    assert len(neighbours.degraded) <= len(neighbours) * (len(before.degraded) / len(before) + 0.02)
    assert all(each.allowed for each in neighbours.found if each.source == "store")
