"""`bench saturate`: how many checks a second one store node can answer, beside the script as it is usually written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.case import Measured
from bench.goals import Goal, ratio_found
from bench.load import Pipe
from bench.machine import machine_facts
from bench.numbers import per_second, spread, store_us
from bench.pressure import KEY_HOLE, KEYS, TOOL, Press, press
from bench.questions import Questions, encoded, words_of
from bench.server import Server, left_out, servers, work_of
from bench.settings import FULL, Settings
from bench.store_peers import CLASSIC
from limen import Rule
from limen.stores.valkey.link import FULL_OUTBOX

__all__ = ["saturate"]

LIMIT = "1000/hour"
"""A client is remembered for some seconds after a check: as long as it takes to measure one kind of command."""
ONE = Rule("bench-one", limit=LIMIT)
TWO = Rule("bench-two", limit=LIMIT)
CLASSIC_ARGUMENTS = (b"0.2777777778", b"1000", b"1")
PIPELINES = (1, FULL_OUTBOX, 64)
PIPELINED = FULL_OUTBOX
"""As our own connection writes them."""
FIRST = 1_000
"""Commands from which the length of a measurement is estimated."""
LEAST = 2_000
FILL = 2 * KEYS
"""Commands before the measurements of one kind, so that most clients are known in them."""


class Row(NamedTuple):
    server: str
    name: str
    pipeline: int


def saturate(settings: Settings) -> dict[str, Any]:
    """Press every kind of command on every server, in turn, `settings.rounds` times."""
    results: dict[Row, list[Measured]] = {}
    machines = {}
    for name, start in servers().items():
        with start() as server:
            machines[name] = machine_facts(server)
            for row, measured in _measurements(server, settings):
                results.setdefault(row, []).append(measured)
    goals = [goal for server in machines for goal in _goals(server)]
    versions = {name: machine["versions"]["server"] for name, machine in machines.items()}
    settled = {"rounds": settings.rounds, "load": "redis-benchmark" if TOOL else "Python"} | versions
    return {
        "benchmark": "saturate",
        "machine": machines["Valkey"],
        "settings": settled,
        "rows": [_shown(row, runs) for row, runs in results.items()],
        "skipped": left_out(),
        "goals": [found for goal in goals if (found := ratio_found(goal, results))],
    }


def _measurements(server: Server, settings: Settings) -> Iterator[tuple[Row, Measured]]:
    commands = _commands(server.port)
    fill = int(FILL * min(1.0, settings.seconds / FULL.seconds))
    for _ in range(settings.rounds):
        for name, words in commands.items():
            press(server.port, Press(words, PIPELINED), fill)
            for pipeline in PIPELINES:
                yield Row(server.name, name, pipeline), _pressed(server, Press(words, pipeline), settings.seconds)


def _commands(port: int) -> dict[str, tuple[bytes, ...]]:
    """What is sent, by the name of its row."""
    questions = Questions()
    questions.introduce(port)
    with Pipe(port) as pipe:
        classic, nothing = (pipe.ask(encoded(b"SCRIPT", b"LOAD", text)) for text in (CLASSIC.read_bytes(), b"return 1"))
    return {
        "limen check": _with_a_hole(questions.take("client", ONE)),
        "limen check, two rules": _with_a_hole(questions.take("client", ONE, TWO)),
        "classic script": (b"EVALSHA", classic, b"1", b"classic:{%b}" % KEY_HOLE, *CLASSIC_ARGUMENTS),
        "floor: return 1": (b"EVALSHA", nothing, b"1", b"nothing:{%b}" % KEY_HOLE),
        "floor: INCR": (b"INCR", b"counter:{%b}" % KEY_HOLE),
    }


def _with_a_hole(command: bytes) -> tuple[bytes, ...]:
    """The words of an EVALSHA with random digits in its keys, which stay as long as they are."""
    words = words_of(command)
    for index in range(3, 3 + int(words[2])):
        words[index] = words[index][: -len(KEY_HOLE) - 1] + KEY_HOLE + words[index][-1:]
    return tuple(words)


def _pressed(server: Server, wanted: Press, seconds: float) -> Measured:
    """One measurement of about `seconds`."""
    first_s = press(server.port, wanted, FIRST)
    count = max(LEAST, int(FIRST * seconds / first_s))
    with server.client() as client:
        before = work_of(client)
        wall_s = press(server.port, wanted, count)
        after = work_of(client)
    return Measured(count, 0.0, wall_s, after.cpu_s - before.cpu_s, after.scripts - before.scripts)


def _shown(row: Row, runs: list[Measured]) -> dict[str, Any]:
    name = f"{row.server}: {row.name}, {'unpipelined' if row.pipeline == 1 else f'{row.pipeline} at once'}"
    return {"name": name} | {of.__name__: spread([of(run) for run in runs])._asdict() for of in (per_second, store_us)}


def _goals(server: str) -> list[Goal]:
    classic, ours = Row(server, "classic script", 1), Row(server, "limen check", PIPELINED)
    two = Row(server, "limen check, two rules", PIPELINED)
    return [
        Goal(f"P3 {server}", "per_second of ours pipelined / classic unpipelined", ours, classic, per_second, 2.5),
        Goal(f"P4b {server}", "per_second of two rules / one rule, pipelined", two, ours, per_second, 0.75),
    ]
