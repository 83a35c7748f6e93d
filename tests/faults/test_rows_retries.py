"""Clients that do what they are told: they come back when `Retry-After` says so, all of them. In virtual time."""

from __future__ import annotations

import heapq
from collections import Counter
from contextlib import ExitStack
from random import Random
from typing import Any, NamedTuple

from limen import Limiter, Rule
from limen.adapters.http import denial, dialects
from limen.stores.memory import MemoryStore
from limen.testing import ManualClock
from tests.faults.fleet.row import Row

LIMIT = "6/minute"
WAIT_S = 10
"""Between tokens."""
GATEWAYS = 4
WRITERS = dialects(["ietf-11", "legacy"])
UNDER_WAY_US = 50_000
"""What a client and the network add, at most."""
AT_MOST = 2
"""Peak of the store's load, in one second, over its mean."""
SPREAD = 1.1


class Crowd(NamedTuple):
    """What clients did and were told."""

    load: Counter[int]
    """Questions to the store, by second."""
    waits: Counter[int]
    """Seconds that they were told to wait at their first refusal."""


def crowd(clients: int, seconds: int, rule: Rule, starting_s: float, jitter: float = 1.0) -> Crowd:
    """Clients with endless work begin within `starting_s`, ask until they are refused, and wait as they are told."""
    chance, clock = Random(28), ManualClock(1_750_000_000)
    began_us = clock.now_us()
    with ExitStack() as opened:
        shared = MemoryStore(clock.now_us)
        gateways = [opened.enter_context(Limiter(shared, [rule], clock=clock)) for _ in range(GATEWAYS)]
        due = [(began_us + int(chance.random() * starting_s * 1_000_000), client) for client in range(clients)]
        heapq.heapify(due)
        found, told = Crowd(Counter(), Counter()), set[int]()
        while due[0][0] < began_us + seconds * 1_000_000:
            now_us, client = heapq.heappop(due)
            clock.set(now_us / 1_000_000)
            wait_s = _asked(
                chance.choice(gateways), client, found.load, (now_us - began_us) // 1_000_000, chance, jitter
            )
            if client not in told:
                found.waits[wait_s] += 1
                told.add(client)
            heapq.heappush(due, (now_us + wait_s * 1_000_000 + chance.randrange(UNDER_WAY_US), client))
    return found


def _asked(gateway: Limiter, client: int, load: Counter[int], second: int, chance: Random, jitter: float) -> int:
    """Ask until it is refused; the seconds that the response says."""
    while True:
        found = gateway.check(f"c{client}", "r")
        load[second] += found.source != "deny_cache"
        if not found.allowed:
            return int(dict(denial(found, WRITERS, jitter=chance.random() * jitter).headers)["retry-after"])


def peak(load: Counter[int], seconds: range) -> float:
    """The most in one second over the mean of all."""
    return max(load[second] for second in seconds) * len(seconds) / sum(load[second] for second in seconds)


def test_F28_synchronised_retries(row: Row, length: Any) -> None:
    clients, seconds = length.pick(1000, 10_000), length.pick(180, 600)
    row.of(
        f"{clients} clients with endless work obey Retry-After: they begin within {WAIT_S} s, or all in one moment",
        "who is refused together is told waits that differ by a tenth; in no second has the store more than twice the "
        "mean of the time in which they come",
    )
    steady = crowd(clients, seconds, Rule("r", limit=LIMIT), WAIT_S)
    over = peak(steady.load, range(60, seconds))
    row.saw(who_begins_one_after_the_other=f"peak {over:.2f} of the mean")
    assert over <= AT_MOST, "obeying does not make them fall into step"
    for wait_s in (10, 30):
        wave(row, crowd(clients, 2 * wait_s, Rule("r", limit=f"{60 // wait_s}/minute"), 0.0), wait_s)
    alike = crowd(clients, WAIT_S + 5, Rule("r", limit=LIMIT), 0.0, jitter=0.0)
    assert len(alike.waits) == 1, "without the part that is left to chance they would come in one second"


def wave(row: Row, seen: Crowd, wait_s: int) -> None:
    """Hold that those who were refused in one moment come back spread evenly over a tenth of their wait."""
    first, last = min(seen.waits), max(seen.waits)
    over = peak(seen.load, range(first, last + 1))
    row.saw(**{f"all in one moment, {wait_s} s": f"told {first} to {last} s, peak {over:.2f} of the mean of these"})
    assert first >= wait_s
    assert last >= SPREAD * first
    assert over <= AT_MOST
