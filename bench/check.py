"""`bench check`: what a check costs, with a store and without, beside the peers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any, NamedTuple

from bench import limen_cases, memory_peers, store_peers
from bench.case import Case, Measured, fresh_clients, missing
from bench.machine import machine_facts
from bench.measure import measure_rounds
from bench.numbers import cpu_us, per_second, ratio, spread, store_calls, store_us, wall_us
from bench.server import valkey
from bench.settings import Settings

__all__ = ["check"]

IN_FLIGHT = 64
STORE = partial(Case, "store", in_flight=IN_FLIGHT)
MEMORY = partial(Case, "memory")
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
]


class Goal(NamedTuple):
    """A ratio that was promised: `of` of one case by that of another."""

    id: str
    group: str
    upper: str
    lower: str
    of: Any
    wanted: float
    at_least: bool = True


GOALS = [
    Goal("P1 check", "store", "limits fixed window", "limen check", cpu_us, 8),
    Goal("P1 request", "store", "limen check_request, 200 rules", "limen check", cpu_us, 1.6, at_least=False),
    Goal("P2", "store", "limen check", "limits fixed window", per_second, 4),
    Goal("P5", "memory", "limits fixed window", "limen check", cpu_us, 2.8),
    Goal("P6", "memory", "limen denial, deny cache", "limen check", cpu_us, 1.1, at_least=False),
]


def check(settings: Settings) -> dict[str, Any]:
    """Measure every case that can run here; the report as JSON values."""
    absent = {case.key: module for case in CASES if (module := missing(case))}
    cases = [case for case in CASES if case.key not in absent]
    with valkey() as server:
        results = measure_rounds(cases, server, settings.rounds, settings.seconds)
        machine = machine_facts(server)
    return {
        "benchmark": "check",
        "machine": machine,
        "settings": {"rounds": settings.rounds, "seconds": settings.seconds, "in_flight": IN_FLIGHT},
        "rows": [_row(case, results) for case in cases],
        "skipped": [
            {"group": group, "name": name, "loop": loop, "why": f"{module} is not installed"}
            for (group, name, loop), module in absent.items()
        ],
        "goals": [found for goal in GOALS if (found := _goal(goal, results))],
    }


def _row(case: Case, results: dict[tuple[str, str, str], list[Measured]]) -> dict[str, Any]:
    runs = results[case.key]
    ours = results[case.group, "limen check", "asyncio"]
    row: dict[str, Any] = {"group": case.group, "name": case.name, "loop": case.loop, "in_flight": case.in_flight}
    row |= {of.__name__: spread([of(run) for run in runs])._asdict() for of in (cpu_us, wall_us, per_second)}
    row |= {of.__name__: spread([of(run) for run in runs])._asdict() for of in (store_us, store_calls)}
    row["cpu_by_limen_check"] = ratio(runs, ours, cpu_us)._asdict()
    row["checks"] = sum(run.checks for run in runs)
    return row


def _goal(goal: Goal, results: dict[tuple[str, str, str], Sequence[Measured]]) -> dict[str, Any] | None:
    upper, lower = (results.get((goal.group, name, "asyncio")) for name in (goal.upper, goal.lower))
    if upper is None or lower is None:
        return None
    found = ratio(upper, lower, goal.of)
    met = found.median >= goal.wanted if goal.at_least else found.median <= goal.wanted
    words = f"{goal.of.__name__} of {goal.upper} / {goal.lower}"
    wanted = f"{'≥' if goal.at_least else '≤'} {goal.wanted:g}"
    return {"id": goal.id, "ratio": words, "found": found._asdict(), "wanted": wanted, "met": met}
