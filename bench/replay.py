"""`bench replay`: lines of an access log that `limen replay` decides in a second, from its start to its report."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench.machine import machine_facts
from bench.numbers import spread
from bench.settings import Settings

__all__ = ["replay"]

LIMEN = Path(sys.executable).with_name("limen")
FLOOR = "import sys; print(sum(len(line.split()) > 5 for line in open(sys.argv[1])))"
BEGIN_S = 1_750_000_000
CLIENTS, PATHS = 20_000, 3_000
ONE = "rules:\n  - {id: all, key_by: [ip], limit: 60/minute}\n"
THREE = (
    f"{ONE}  - {{id: items, match: {{path: '/v1/items/**', methods: [GET]}}, key_by: [ip], limit: 20/minute}}\n"
    "  - {id: everybody, key_by: [], limit: 10000/second}\n"
)


class Ran(NamedTuple):
    wall_s: float
    cpu_s: float


def replay(settings: Settings) -> dict[str, Any]:
    """Each command in turn, on a log of requests of some thousand clients, a few of whom send most."""
    found: dict[str, list[Ran]] = {}
    with tempfile.TemporaryDirectory() as folder:
        commands = _commands(Path(folder), settings.lines)
        for _ in range(settings.rounds):
            for name, command in commands.items():
                found.setdefault(name, []).append(_run(command))
    rows = [
        {
            "name": name,
            "lines_per_s": spread([settings.lines / each.wall_s for each in runs])._asdict(),
            "lines_per_cpu_s": spread([settings.lines / each.cpu_s for each in runs])._asdict(),
        }
        for name, runs in found.items()
    ]
    chosen = {"rounds": settings.rounds, "lines": settings.lines}
    return {"benchmark": "replay", "machine": machine_facts(), "settings": chosen, "rows": rows}


def _commands(folder: Path, lines: int) -> dict[str, list[str]]:
    log, one, three = folder / "access.log", folder / "one.yaml", folder / "three.yaml"
    one.write_text(ONE)
    three.write_text(THREE)
    _write(log, lines)
    replay = [str(LIMEN), "replay", str(log), "--json", "--rules"]
    return {
        "floor: read and split": [sys.executable, "-c", FLOOR, str(log)],
        "limen replay, 1 rule": [*replay, str(one)],
        "limen replay, 3 rules": [*replay, str(three)],
    }


def _write(log: Path, lines: int) -> None:
    """Some hundred lines a second, the lines of one second in any order."""
    rng = random.Random(7)
    paths = [f"/v1/{rng.choice(['items', 'users', 'search'])}/{number}" for number in range(PATHS)]
    with log.open("w") as file:
        for number in range(lines):
            client = int(CLIENTS * rng.random() ** 3)
            at = datetime.fromtimestamp(BEGIN_S + number / 300 + rng.random(), UTC)
            file.write(
                f"198.18.{client // 250}.{client % 250} - - [{at:%d/%b/%Y:%H:%M:%S +0000}] "
                f'"GET {rng.choice(paths)} HTTP/1.1" 200 512 "-" "-"\n'
            )


def _run(command: list[str]) -> Ran:
    before, began = _children_cpu_s(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Ran(time.perf_counter() - began, _children_cpu_s() - before)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
