"""Make docs/faults.md of what the rows measured last: `python -m tests.faults.report`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from tests.faults.fleet.row import FOLDER

__all__ = ["page"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
HEAD = """# Faults that are survived

Each row is a test: gateway processes under load (four, where nothing else is said, and ten thousand clients, whose
numbers of requests follow Zipf's law), a real store, and a fault. `./dev test` runs short forms,
`./dev test faults` the long ones; `python -m tests.faults.report` writes this page from what they measured.

In every row besides: no rule that fails open answers 5xx, nothing is raised or logged with a traceback, everybody is
answered, and no client gets more than its limit and the bound that the rule declares
([failure](failure.md#what-is-exact-and-what-is-bounded)).

Times were measured in the gateway, from question to answer. The machine was not quiet: {machine}. So the time that an
event loop was late (busy, or without a processor) stands beside. Tests compare with that, and with the deadline of
5 ms; they hold nobody to an absolute time.
"""
ROW = """
## {number}: {fault}

| | |
| --- | --- |
| injected | {injected} |
| promised | {promised} |
{measured}"""
PATTERN = re.compile(r"def test_(F\d+)_(\w+)\(")
HERE = Path(__file__).resolve().parent


def page(folder: Path = FOLDER) -> str:
    """The page, of the longest form of each row that passed."""
    rows = sorted(_best(folder).values(), key=lambda row: int(row["number"][1:]))
    machine = f"{os.cpu_count()} processors for the gateways, the servers, the tests and whatever else ran"
    names = _names()
    return HEAD.format(machine=machine) + "".join(_row(row, names) for row in rows)


def _best(folder: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):  # the long form of a row comes first
        row = json.loads(path.read_text())
        if row["passed"]:
            found.setdefault(row["number"], row)
    return found


def _names() -> dict[str, str]:
    """What each row is called, from the names of the tests."""
    source = "".join(path.read_text() for path in sorted(HERE.glob("test_*.py")))
    return {f"F{int(number[1:])}": name.replace("_", " ") for number, name in PATTERN.findall(source)}


def _row(row: dict[str, Any], names: dict[str, str]) -> str:
    told = {**row, "fault": names[row["number"]], "measured": _measured(row["measured"])}
    return ROW.format(**told)


def _measured(measured: dict[str, Any]) -> str:
    return "".join(f"| {name.replace('_', ' ')} | {_said(value)} |\n" for name, value in measured.items())


def _said(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
