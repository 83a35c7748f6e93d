"""Reports as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["as_text"]

TITLES = {
    "store": "With a store on this machine, {in_flight} checks in flight, one process",
    "memory": "In this process, one thread",
    "sync": "With a store on this machine, blocking, one thread",
}
WITH_STORE = {"store", "sync"}


def as_text(report: dict[str, Any]) -> str:
    """The whole report."""
    rows = _check(report) if report["benchmark"] == "check" else _plain(report)
    return "\n".join([_machine(report["machine"]), *rows, *_skipped(report), *_goals(report)])


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    return f"{machine['python']}, {machine['cpus']} CPUs, load {machine['load']}; {versions}"


def _check(report: dict[str, Any]) -> Iterator[str]:
    for group, title in TITLES.items():
        yield f"\n{title.format(**report['settings'])}"
        head = ["", "loop", "CPU µs", "min–max", "× limen check", "checks/s"]
        rows = [row for row in report["rows"] if row["group"] == group]
        if group in WITH_STORE:
            head += ["store CPU µs", "store calls"]
        yield from _aligned([head, *(_cells(row, group in WITH_STORE) for row in rows)])


def _cells(row: dict[str, Any], with_store: bool) -> list[str]:
    cpu = row["cpu_us"]
    cells = [
        row["name"], row["loop"], f"{cpu['median']:.2f}", f"{cpu['min']:.2f}–{cpu['max']:.2f}",
        _by_ours(row["cpu_by_limen_check"]), f"{row['per_second']['median']:,.0f}",
    ]  # fmt: skip
    return [*cells, f"{row['store_us']['median']:.1f}", f"{row['store_calls']['median']:.2f}"] if with_store else cells


def _by_ours(found: dict[str, float] | None) -> str:
    return "" if found is None else f"{found['median']:.2f}"


def _skipped(report: dict[str, Any]) -> Iterator[str]:
    for row in report.get("skipped", ()):
        where = f" ({row['group']}, {row['loop']})" if "group" in row else ""
        yield f"left out: {row['name']}{where}: {row['why']}"


def _goals(report: dict[str, Any]) -> Iterator[str]:
    if report.get("goals"):
        yield "\nGoals (ratios, round by round)" if report["benchmark"] == "check" else "\nGoals"
        head = ["", "", "found", "min–max", "wanted", ""]
        yield from _aligned([head, *(_goal_cells(goal) for goal in report["goals"])])


def _goal_cells(goal: dict[str, Any]) -> list[str]:
    found = goal["found"]
    spread = f"{found['min']:.2f}–{found['max']:.2f}" if found["min"] < found["max"] else ""
    return [
        goal["id"],
        goal["ratio"],
        f"{found['median']:.2f}",
        spread,
        goal["wanted"],
        "" if goal["met"] else "MISSED",
    ]


def _plain(report: dict[str, Any]) -> Iterator[str]:
    """Rows of a name and numbers, some of them a median with its range."""
    yield ", ".join(f"{name} {_number(value)}" for name, value in report["settings"].items()) + "\n"
    rows = report["rows"]
    names = [name for name in rows[0] if name != "name"]
    head = ["", *(name.replace("_", " ") for name in names)]
    yield from _aligned([head, *([row["name"], *(_ranged(row[name]) for name in names)] for row in rows)])


def _ranged(value: Any) -> str:
    if not isinstance(value, dict):
        return _number(value)
    return f"{_number(value['median'])} ({_number(value['min'])}–{_number(value['max'])})"


def _number(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = row
        yield "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]).rstrip()  # fmt: skip  # noqa: E501
