"""`bench start`: how long until a command says its first line."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench.machine import machine_facts
from bench.numbers import spread
from bench.server import free_port
from bench.settings import Settings

__all__ = ["start"]

LIMEN = Path(sys.executable).with_name("limen")
STOP_S = 20.0


class Started(NamedTuple):
    wall_s: float
    """Until the first line."""
    cpu_s: float
    """From start to end, children included."""


def start(settings: Settings) -> dict[str, Any]:
    """Start each command in turn. The first round fills caches and is not counted."""
    found: dict[str, list[Started]] = {}
    for number in range(settings.rounds + 1):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for name, command in _commands(folder).items():
                started = _start(command, folder)
                if number:
                    found.setdefault(name, []).append(started)
    rows = [
        {
            "name": name,
            "first_line_ms": spread([each.wall_s * 1000 for each in runs])._asdict(),
            "cpu_ms": spread([each.cpu_s * 1000 for each in runs])._asdict(),
        }
        for name, runs in found.items()
    ]
    return {"benchmark": "start", "machine": machine_facts(), "settings": {"rounds": settings.rounds}, "rows": rows}


def _commands(folder: str) -> dict[str, list[str]]:
    ports = ["--port", str(free_port()), "--admin-port", str(free_port())]
    return {
        "floor: python": [sys.executable, "-c", "print('ready')"],
        "import limen": [sys.executable, "-c", "import limen; limen.AsyncLimiter; print('ready')"],
        "limen --help": [str(LIMEN), "--help"],
        "limen up": [str(LIMEN), "up", "--data", folder, *ports],
    }


def _start(command: list[str], folder: str) -> Started:
    before, began = _children_cpu_s(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        wall_s = time.perf_counter() - began
        process.send_signal(signal.SIGINT) if process.poll() is None else None
        try:
            _, errors = process.communicate(timeout=STOP_S)
        finally:
            process.kill()
    if not line:
        raise SystemExit(f"bench: {Path(command[0]).name} {command[1]} said nothing: {errors.strip()}")
    return Started(wall_s, _children_cpu_s() - before)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
