"""Make docs/faults.md of what the rows measured last: `python -m tests.faults.report`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.faults.fleet.row import FOLDER

__all__ = ["page"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
HEAD = """# Faults that are survived

Each row is a test: gateway processes under load, a real store, and a fault. Where nothing else is said there are four
gateways, and ten thousand clients whose numbers of requests follow Zipf's law. `./dev test` runs short forms, on
Valkey; `./dev test faults` the long ones, on Redis 7.0. `python -m tests.faults.report` writes this page from what was
measured last.

In every row besides: no rule that fails open answers 5xx, nothing is raised, the log has no traceback, everybody is
answered, and no client gets more than its limit and the bound that the rule declares
([failure](failure.md#what-is-exact-and-what-is-bounded)).

Times are from question to answer, in the gateway. The machine was not quiet: {cores} processors for gateways, servers,
tests and whatever else ran. So the time that an event loop was late (busy, or without a processor) stands beside.
Tests compare with that, and with the deadline of 5 ms; they hold nobody to an absolute time.

| fault | injected | promised |
| --- | --- | --- |
{overview}"""
OVERVIEW = "| [{number}](#{anchor}) {fault} | {injected} | {promised} |\n"
ROW = """
## {number} {fault}

{form}:

| | |
| --- | --- |
{measured}"""
FORMS = {"short": "Short form, on Valkey", "long": "Long form, on Redis 7.0"}


def page(folder: Path = FOLDER) -> str:
    """The page, of the longest form of each row that passed."""
    rows = [_told(row) for row in sorted(_best(folder).values(), key=lambda row: int(row["number"][1:]))]
    overview = "".join(OVERVIEW.format(**row) for row in rows)
    return HEAD.format(cores=os.cpu_count(), overview=overview) + "".join(ROW.format(**row) for row in rows)


def _best(folder: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):  # the long form of a row comes first
        row = json.loads(path.read_text())
        if row["passed"]:
            found.setdefault(row["number"], row)
    return found


def _told(row: dict[str, Any]) -> dict[str, str]:
    anchor = f"{row['number']} {row['fault']}".lower().replace(" ", "-")
    told = {"anchor": anchor, "form": FORMS[row["length"]], "measured": _measured(row["measured"])}
    return {**row, **told}


def _measured(measured: dict[str, Any]) -> str:
    return "".join(f"| {name.replace('_', ' ')} | {_said(value)} |\n" for name, value in measured.items())


def _said(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
