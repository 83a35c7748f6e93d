"""The run itself: a cluster, a fleet, and a fault each minute."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from limen.rules.bound import bound_of
from tests.faults.fleet.firewall import Firewall
from tests.faults.fleet.fleet import Fleet
from tests.faults.fleet.gateway import hurry
from tests.faults.fleet.spec import Load
from tests.soak.faults import FAULTS, Scene
from tests.soak.plan import Step, plan
from tests.soak.report import Minute, Outcome
from tests.soak.watch import Ledger, Usage, keys_for_ever, samples_of, usage
from tests.topologies.servers import Cluster

__all__ = ["Wish", "soak"]

RULES: list[dict[str, Any]] = [
    {"id": "api", "limit": "20/second burst 100"},
    {"id": "login", "limit": "10/second burst 50", "on_failure": "closed"},
]
MIX = [("api", 0.9, 1), ("login", 0.1, 1)]
CLIENTS = 300
"""So few that all have been there in each kind of fault after the warm-up: a process keeps about a kilobyte of each."""
WARM_MINUTES = len(FAULTS) + 1
"""By then each kind of fault has been there, and whatever it fills has been filled once."""
LEAST_S = 1800.0
"""Memory of a process that was watched for less says nothing about an hour."""
GROWTH_PER_HOUR = 0.01
MORE_FILES = 4
"""A connection may just be there twice while it is replaced, and a node more be known."""


class Wish(NamedTuple):
    """How the run is wished."""

    minutes: int
    seed: int
    folder: Path
    minute_s: float = 60.0
    gateways: int = 4
    rate: float = 150.0
    """Requests a second to each gateway."""
    tell: Callable[[str], object] = print


def soak(wish: Wish) -> Outcome:
    """Run it to its end, whatever fails."""
    outcome = Outcome(wish.seed, wish.minutes, datetime.now(UTC).isoformat(timespec="seconds"))
    ledger = Ledger(RULES)
    with _scene(wish) as scene:
        began = time.monotonic()
        _rest(began, wish.minute_s)
        _look(scene, ledger, time.monotonic() - began)
        for step in plan(wish.seed, wish.minutes):
            before = ledger.degraded
            well_s = _happen(scene, step, outcome.failures)
            _rest(began, wish.minute_s * (step.minute + 1))
            _look(scene, ledger, time.monotonic() - began)
            outcome.steps.append(Minute(step, well_s, ledger.degraded - before, ledger.most_over()))
            wish.tell(_line(outcome, ledger.decided))
        _conclude(scene, ledger, outcome, wish)
    return outcome


@contextlib.contextmanager
def _scene(wish: Wish) -> Iterator[Scene]:
    cluster = Cluster("valkey", wish.folder / "cluster", replicas=1, options=["--enable-debug-command", "local"])
    load = Load(rate=wish.rate, clients=CLIENTS, mix=MIX, seed=wish.seed)
    try:
        for server in cluster.servers:
            hurry(server.pid)
        folder = wish.folder / "fleet"
        with Firewall() as wall, Fleet(cluster.url, RULES, folder, gateways=wish.gateways, load=load) as fleet:
            fleet.load()
            yield Scene(cluster, fleet, wall, folder)
    finally:
        cluster.stop()


def _happen(scene: Scene, step: Step, failures: list[str]) -> float:
    """Let it happen; the seconds from its end until all was well again."""
    try:
        FAULTS[step.fault](scene, step.seconds, Random(step.chance))
        began = time.monotonic()
        scene.mend()
    except AssertionError as error:
        failures.append(f"minute {step.minute}, {step.fault}: {error}")
        return float("nan")
    return time.monotonic() - began


def _rest(began: float, until_s: float) -> None:
    time.sleep(max(0.0, began + until_s - time.monotonic()))


def _look(scene: Scene, ledger: Ledger, second: float) -> None:
    for gateway in scene.fleet.gateways:
        ledger.take(gateway, second)
    ledger.settle()
    ledger.samples += samples_of(scene.cluster.servers, second)


def _line(outcome: Outcome, decided: int) -> str:
    step, well_s, degraded, over = outcome.steps[-1]
    return (
        f"minute {step.minute}: {step.fault}, {step.seconds:g} s, all well {well_s:.1f} s later; {decided} decisions, "
        f"{degraded} without the store; {over:.1f} tokens over; {len(outcome.failures)} failures"
    )


def _conclude(scene: Scene, ledger: Ledger, outcome: Outcome, wish: Wish) -> None:
    """Hold what is promised."""
    fleet, cluster = scene.fleet, scene.cluster
    fleet.rest()
    for gateway in fleet.gateways:
        ledger.take(gateway, ledger.samples[-1].second)
    ages = keys_for_ever(cluster.leaders)
    outcome.keys = sum(server.ask("DBSIZE") for server in cluster.leaders)
    scene.errors += "".join(gateway.close() for gateway in fleet.gateways)
    outcome.decided, outcome.degraded = ledger.decided, ledger.degraded
    outcome.samples = ledger.samples
    outcome.usage = usage(ledger.samples, WARM_MINUTES * wish.minute_s, LEAST_S)
    outcome.bounds = [_bound(at, ledger, wish.gateways, outcome.failures) for at in range(len(ledger.rules))]
    outcome.failures += [f"an exception: {text}" for text in ledger.unhandled]
    outcome.failures += [f"on standard error: {text}" for text in scene.errors.splitlines() if "Traceback" in text]
    outcome.failures += [f"{len(ages)} keys never expire, as {ages[0]}"] if ages else []
    outcome.failures += [f"{ledger.refused_open} requests got 503 though their rule is open"] * bool(
        ledger.refused_open
    )
    outcome.failures += _growth(outcome.usage, may_tell=(wish.minutes - WARM_MINUTES - 2) * wish.minute_s >= LEAST_S)


def _growth(watched: list[Usage], may_tell: bool) -> list[str]:
    """What is wrong with the memory and the files of gateways. `may_tell`: the run was long enough to know."""
    gateways = [each for each in watched if "gateway" in each.process]
    if may_tell and not gateways:
        return ["no gateway was watched for long enough to tell whether it grows"]
    return [
        f"{each.process} grows by {100 * each.growth_per_hour:.2f} % an hour, and by {each.more_files} files"
        for each in gateways
        if each.growth_per_hour > GROWTH_PER_HOUR or each.more_files > MORE_FILES
    ]


def _bound(at: int, ledger: Ledger, gateways: int, failures: list[str]) -> dict[str, Any]:
    """Hold that a rule stayed within what it declares, as a part of the limit: faults come one after the other."""
    rule, checker = ledger.rules[at], ledger.checkers[at]
    declared = bound_of(rule, gateways)
    assert declared
    bound = (declared.tokens + declared.untold) / declared.capacity
    worst = checker.worst_ratio()
    try:
        checker.check(bound_ratio=bound)
    except AssertionError as error:
        failures.append(f"rule {rule.id}: {error}")
    seen = f"{100 * worst.ratio:.2f} %" if worst else "0 %"
    return {"rule": rule.id, "bound": f"{100 * float(bound):g} %", "worst": seen, "admissions": len(checker)}
