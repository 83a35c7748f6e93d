"""`bench flood`: hostile clients fill the memory of a store; are those who had spent their limits still limited?

Every key lives until its bucket is full, so with `volatile-ttl` the server gives up those that have least to say. What
other policies make of the same flood stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from bench.goals import judged
from bench.load import ask_all
from bench.machine import machine_facts
from bench.numbers import spread
from bench.questions import Questions
from bench.server import Server, left_out, servers
from bench.settings import Settings
from limen import Rule

__all__ = ["flood"]

OURS = "volatile-ttl"
POLICIES = (OURS, "allkeys-lru", "noeviction")
MAXMEMORY = "20mb"
CAPACITY = 10
RULE = Rule("bench-flood", limit=f"{CAPACITY}/hour")
VICTIMS = [f"exhausted-{number}" for number in range(600)]
"""Clients that had spent everything before the flood came."""


class Flooded(NamedTuple):
    errors: int
    """Checks of hostile clients that the server refused to run."""
    evicted: int
    limited: int
    """Exhausted clients that are still limited."""
    used_mb: float


def flood(settings: Settings) -> dict[str, Any]:
    """Flood every server under every policy."""
    rows, goals, machine = [], [], None
    for name, start in servers().items():
        for policy in POLICIES:
            with start(maxmemory=MAXMEMORY, maxmemory_policy=policy) as server:
                machine = machine or machine_facts()
                found = _flooded(server, settings.keys)
            rows.append(_row(f"{name}: {policy}", found, settings.keys))
            goals += _goals(name, found) if policy == OURS else []
    settled = {"keys": settings.keys, "maxmemory": MAXMEMORY, "exhausted clients": len(VICTIMS)}
    return {
        "benchmark": "flood",
        "machine": machine,
        "settings": settled,
        "rows": rows,
        "skipped": left_out(),
        "goals": goals,
    }


def _flooded(server: Server, keys: int) -> Flooded:
    questions = Questions()
    questions.introduce(server.port)
    assert _errors(server, questions.take_each(VICTIMS, RULE, cost=CAPACITY)) == 0
    hostile = (f"hostile-{number}" for number in range(keys))
    errors = _errors(server, questions.take_each(hostile, RULE))
    with server.client() as client:
        told = client.info("everything")
    limited = _limited(server, questions)
    return Flooded(errors, told["evicted_keys"], limited, told["used_memory"] / 1e6)


def _errors(server: Server, commands: Iterable[bytes]) -> int:
    return sum(isinstance(reply, Exception) for reply in ask_all(server.port, commands))


def _limited(server: Server, questions: Questions) -> int:
    """How many exhausted clients find less than a token. Asked with a cost of nothing: a look changes nothing."""
    replies = ask_all(server.port, questions.take_each(VICTIMS, RULE, cost=0))
    return sum(questions.lacks_a_token(reply, RULE) for reply in replies)


def _row(name: str, found: Flooded, keys: int) -> dict[str, Any]:
    return {
        "name": name,
        "script_errors": found.errors,
        "errors_%": round(found.errors / keys * 100, 1),
        "evicted": found.evicted,
        "still_limited": found.limited,
        "still_limited_%": round(found.limited / len(VICTIMS) * 100, 1),
        "used_mb": round(found.used_mb, 1),
    }


def _goals(server: str, found: Flooded) -> list[dict[str, Any]]:
    share = found.limited / len(VICTIMS)
    return [
        judged(f"F17 {server}", "exhausted clients that stay limited", spread([share]), 0.999, True),
        judged(f"F17 {server}", "script errors", spread([float(found.errors)]), 0, False),
    ]
