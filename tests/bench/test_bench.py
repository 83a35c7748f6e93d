"""The benchmarks run and say what they promise. How fast anything is, no test asks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = {"limen check", "limen check_request, 200 rules", "limen denial, deny cache", "floor: clock read"}


def test_a_quick_run_measures_every_row_and_names_what_it_left_out(tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    command = [sys.executable, "-m", "bench", "check", "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    report = json.loads(file.read_text())["check"]

    assert {row["name"] for row in report["rows"]} >= OURS
    assert all(row["cpu_us"]["median"] > 0 and row["per_second"]["median"] > 0 for row in report["rows"])
    assert {row["group"] for row in report["rows"]} == {"store", "memory"}
    for peer in ("limits", "throttled"):
        measured = any(row["name"].startswith(peer) for row in report["rows"])
        assert measured or f"left out: {peer}" in done.stdout
    assert all({"id", "ratio", "found", "wanted", "met"} <= goal.keys() for goal in report["goals"])
