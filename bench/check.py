"""`bench check`: what a check costs, with a store and without, beside the peers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from typing import Any

from bench import limen_cases, memory_peers, node_peers, store_peers, sync_peers
from bench.case import Case, Measured, fresh_clients, missing
from bench.goals import Goal, ratio_found
from bench.machine import machine_facts
from bench.measure import measure_rounds
from bench.numbers import cpu_us, per_second, ratio, spread, store_calls, store_us, wall_us
from bench.server import valkey
from bench.settings import Settings

__all__ = ["check"]

IN_FLIGHT = 64
STORE = partial(Case, "store", in_flight=IN_FLIGHT)
MEMORY = partial(Case, "memory")
SYNC = partial(Case, "sync")
HOT = [f"hot-{number}" for number in range(16)]


def hot_clients(count: int) -> list[str]:
    """A few clients that send far over their limits."""
    return list(islice(cycle(HOT), count))


CASES = [
    STORE("limen check", limen_cases.check),
    STORE("limen check + prometheus", limen_cases.check_with_metrics, needs="prometheus_client"),
    STORE("limen check, new clients", limen_cases.check, names=fresh_clients),
    STORE("limen check_request, 200 rules", limen_cases.check_request),
    STORE("limen check_request, two apply", limen_cases.check_two),
    STORE("limits fixed window", store_peers.limits_redis, needs="limits"),
    STORE("throttled-py token bucket", store_peers.throttled_redis, needs="throttled"),
    STORE("redis-py, classic script alone", store_peers.redis_py_script, needs="redis"),
    STORE("valkey-glide, classic script alone", store_peers.glide_script, needs="glide"),
    STORE(
        "rate-limiter-flexible on Node",
        node_peers.rate_limiter_flexible,
        hindered=node_peers.missing_node,
        outside=True,
    ),
    STORE("floor: return 1 on our link", store_peers.return_one),
    STORE("limen check", limen_cases.check, loop="uvloop"),
    STORE("limen check_request, 200 rules", limen_cases.check_request, loop="uvloop"),
    STORE("limits fixed window", store_peers.limits_redis, needs="limits", loop="uvloop"),
    STORE("floor: return 1 on our link", store_peers.return_one, loop="uvloop"),
    MEMORY("limen check", limen_cases.check_memory),
    MEMORY("limen denial, deny cache", limen_cases.denied, names=hot_clients),
    MEMORY("limits fixed window", memory_peers.limits_fixed, needs="limits"),
    MEMORY("limits sliding window", memory_peers.limits_sliding, needs="limits"),
    MEMORY("throttled-py token bucket", memory_peers.throttled_memory, needs="throttled"),
    MEMORY("pyrate-limiter", memory_peers.pyrate, needs="pyrate_limiter"),
    MEMORY("aiolimiter, one bucket", memory_peers.aiolimiter_bucket, needs="aiolimiter"),
    MEMORY("floor: dict + GCRA by hand", memory_peers.gcra_by_hand),
    MEMORY("floor: clock read", memory_peers.clock_read),
    SYNC("limen check", sync_peers.limen_sync, needs="bench.sync_cases"),
    SYNC("redis-py, the same script", sync_peers.redis_py),
    SYNC("floor: hiredis by hand", sync_peers.hiredis_by_hand),
]


def _goal(
    name: str, group: str, upper: str, lower: str, of: Callable[[Measured], float], wanted: float, at_least: bool = True
) -> Goal:
    words = f"{of.__name__} of {upper} / {lower}"
    return Goal(name, words, (group, upper, "asyncio"), (group, lower, "asyncio"), of, wanted, at_least)


GOALS = [
    _goal("P1 check", "store", "limits fixed window", "limen check", cpu_us, 8),
    _goal("P1 request", "store", "limen check_request, 200 rules", "limen check", cpu_us, 1.6, at_least=False),
    _goal("P2", "store", "limen check", "limits fixed window", per_second, 4),
    _goal("P5", "memory", "limits fixed window", "limen check", cpu_us, 2.8),
    _goal("P6", "memory", "limen denial, deny cache", "limen check", cpu_us, 1.1, at_least=False),
    _goal("P13", "sync", "limen check", "floor: hiredis by hand", wall_us, 1.3, at_least=False),
]


def check(settings: Settings) -> dict[str, Any]:
    """Measure every case that can run here; the report as JSON values."""
    absent = {case.key: why for case in CASES if (why := missing(case))}
    cases = [case for case in CASES if case.key not in absent]
    with valkey() as server:
        results = measure_rounds(cases, server, settings.rounds, settings.seconds)
        machine = machine_facts(server)
    machine["versions"] |= node_peers.versions()
    return {
        "benchmark": "check",
        "machine": machine,
        "settings": {"rounds": settings.rounds, "seconds": settings.seconds, "in_flight": IN_FLIGHT},
        "rows": [_row(case, results) for case in cases],
        "skipped": [
            {"group": group, "name": name, "loop": loop, "why": why} for (group, name, loop), why in absent.items()
        ],
        "goals": [found for goal in GOALS if (found := ratio_found(goal, results))],
    }


def _row(case: Case, results: dict[tuple[str, str, str], list[Measured]]) -> dict[str, Any]:
    runs = results[case.key]
    ours = results.get((case.group, "limen check", "asyncio"))
    row: dict[str, Any] = {"group": case.group, "name": case.name, "in_flight": case.in_flight}
    row["loop"] = "" if case.outside else case.loop
    row |= {of.__name__: spread([of(run) for run in runs])._asdict() for of in (cpu_us, wall_us, per_second)}
    row |= {of.__name__: spread([of(run) for run in runs])._asdict() for of in (store_us, store_calls)}
    row["cpu_by_limen_check"] = ratio(runs, ours, cpu_us)._asdict() if ours else None
    row["checks"] = sum(run.checks for run in runs)
    return row
