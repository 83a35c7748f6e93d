"""`bench match`: how long it takes to find the rules of a request, among few rules and among many on other paths."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bench.goals import judged
from bench.machine import machine_facts
from bench.numbers import Spread, spread
from bench.settings import Settings
from limen import Request, Rule, RuleSet
from limen.engine.plan import plan_request

__all__ = ["match", "rules_on_paths"]

SIZES = (1, 100, 1000, 10_000)
WANTED_US = 8
REQUEST = Request("GET", "/v1/thing-0/4711/parts", "api.example.com", "acme", "free", None, "192.0.2.7")


def rules_on_paths(count: int, per_minute: int = 1_000_000) -> list[Rule]:
    """Rules, each on a path of its own."""
    return [
        Rule(
            f"rule-{number}",
            match={"methods": ["GET"], "path": f"/v1/thing-{number}/{{id}}/**"},
            limit=f"{per_minute}/minute",
        )
        for number in range(count)
    ]


def match(settings: Settings) -> dict[str, Any]:
    """Find the one rule that applies, and plan the request, in sets of each size in turn."""
    every = rules_on_paths(SIZES[-1])
    sets = {size: RuleSet(every[:size]) for size in SIZES}
    found: dict[int, list[tuple[float, float, float]]] = {size: [] for size in SIZES}
    for _ in range(settings.rounds):
        for size, ruleset in sets.items():
            floor = _us(lambda: None, settings.seconds)
            matching = _us(lambda ruleset=ruleset: ruleset.matching(REQUEST), settings.seconds)  # type: ignore[misc]
            planning = _us(lambda ruleset=ruleset: plan_request(ruleset, REQUEST), settings.seconds)  # type: ignore[misc]
            found[size].append((floor, matching, planning))
    rows = [_row(f"{size:,} rules", runs) for size, runs in found.items()]
    growth = [many[1] / few[1] for many, few in zip(found[SIZES[-1]], found[SIZES[0]], strict=True)]
    goals = [
        judged("P14", "µs to match among 1 000 rules", spread([run[1] for run in found[1000]]), WANTED_US, False),
        judged("P14", "match among 10 000 rules : among one", spread(growth), 1.25, False),
    ]
    settled = {"rounds": settings.rounds, "seconds": settings.seconds}
    return {"benchmark": "match", "machine": machine_facts(), "settings": settled, "rows": rows, "goals": goals}


def _row(name: str, runs: list[tuple[float, float, float]]) -> dict[str, Any]:
    columns: list[Spread] = [spread(list(column)) for column in zip(*runs, strict=True)]
    named = zip(("floor_us", "match_us", "plan_us"), columns, strict=True)
    return {"name": name, **{column: values._asdict() for column, values in named}}


def _us(work: Callable[[], object], seconds: float) -> float:
    """CPU microseconds of one call."""
    calls, used = 64, 0.0
    while used < seconds / 4:
        calls *= 2
        began = time.process_time()
        for _ in range(calls):
            work()
        used = time.process_time() - began
    return used / calls * 1e6
