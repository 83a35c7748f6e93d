"""`bench memory`: how much store memory a client takes, with one rule and with further ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from bench.goals import judged
from bench.load import ask_all
from bench.machine import machine_facts
from bench.numbers import spread
from bench.questions import Questions
from bench.server import Server, left_out, servers
from bench.settings import Settings
from limen import Rule

__all__ = ["memory"]

RULES = [Rule(f"bench-{number}", limit="10/day") for number in range(3)]
"""One take is remembered for 2.4 hours, so that nobody is forgotten while others are loaded."""
USUAL_HZ, FAST_HZ = 10, 500
GROWTH_S = 300.0
GROWTH_LOOK_S = 0.05
GOALS = {"Valkey": (115, 16), "Redis": (180, 20)}
"""Bytes for a client with one rule, and for each further rule, at ten million clients."""


def memory(settings: Settings) -> dict[str, Any]:
    """Let every client make one check under a first, a second and a third rule; once, for it takes minutes."""
    rows, goals, machine = [], [], None
    for name, start in servers().items():
        with start(enable_debug_command="yes") as server:
            machine = machine or machine_facts()
            found = list(_bytes_per_client(server, settings.clients))
        rows += [_row(name, number, *each) for number, each in enumerate(found, 1)]
        goals += _goals(name, [used for used, _ in found])
    settled = {"clients": settings.clients}
    return {
        "benchmark": "memory",
        "machine": machine,
        "settings": settled,
        "rows": rows,
        "skipped": left_out(),
        "goals": goals,
    }


def _bytes_per_client(server: Server, clients: int) -> Iterator[tuple[float, float]]:
    """Bytes for each client, as the server counts them and as the system does, with one rule more each time."""
    questions = Questions()
    questions.introduce(server.port)
    used, resident = _memory(server)
    for rule in RULES:
        _load(server, questions.take_each(_names(clients), rule), clients)
        now_used, now_resident = _memory(server)
        yield (now_used - used) / clients, (now_resident - resident) / clients
        used, resident = now_used, now_resident


def _names(count: int) -> Iterator[str]:
    return (f"client-{number}" for number in range(count))


def _load(server: Server, commands: Iterator[bytes], clients: int) -> None:
    """Ask everything. Whoever was not counted, or is not remembered till the end, would falsify the result."""
    refused = list(islice((reply for reply in ask_all(server.port, commands) if isinstance(reply, Exception)), 1))
    if refused:
        raise SystemExit(f"bench: {server.name} refused a check: {refused[0]}")
    with server.client() as client:
        keys = client.info("keyspace")["db0"]
    if keys["keys"] != clients or keys["expires"] != clients:
        raise SystemExit(f"bench: {server.name} holds {keys} after {clients} clients made a check each")


def _memory(server: Server) -> tuple[int, int]:
    with server.client() as client:
        _until_tables_have_grown(client)
        told = client.info("memory")
    return told["used_memory"], told["used_memory_rss"]


def _until_tables_have_grown(client: Any) -> None:
    """A server that is moving keys from a table to a larger one has both. It moves more quickly when its clock does."""
    client.config_set("hz", FAST_HZ)
    until = time.monotonic() + GROWTH_S
    while b"rehashing target" in client.execute_command("DEBUG", "HTSTATS", "0"):
        if time.monotonic() > until:
            raise SystemExit(f"bench: the tables of the server are still growing after {GROWTH_S:g} s")
        time.sleep(GROWTH_LOOK_S)
    client.config_set("hz", USUAL_HZ)


def _row(server: str, number: int, used: float, resident: float) -> dict[str, Any]:
    name = f"{server}: {'one rule' if number == 1 else f'rule {number}'}"
    return {"name": name, "bytes": round(used, 1), "resident_bytes": round(resident, 1)}


def _goals(server: str, used: list[float]) -> list[dict[str, Any]]:
    first, further = GOALS[server]
    words = "bytes of a client"
    return [
        judged(f"P4 {server}", f"{words}, one rule", spread(used[:1]), first, False),
        judged(f"P4 {server}", f"{words}, each further rule", spread(used[1:]), further, False),
    ]
