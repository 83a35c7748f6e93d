"""The benchmarks run and say what they promise. How fast anything is, no test asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"limen check", "limen check_request, 200 rules", "limen denial, deny cache", "floor: clock read"}
PEERS = {"limits": "limits", "throttled": "throttled", "valkey-glide": "glide", "rate-limiter-flexible": "node"}
STORES = ("saturate", "memory", "flood")


class Run(NamedTuple):
    reports: dict[str, Any]
    said: str


def run_quickly(folder: Path, *names: str, **environment: str) -> Run:
    file = folder / "report.json"
    command = [sys.executable, "-m", "bench", *names, "--quick", "--json", str(file)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=100, check=True
    )
    return Run(json.loads(file.read_text()), done.stdout)


@pytest.fixture(scope="module", params=["with what is installed", "with nothing but this package"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One quick run of several benchmarks; without tools on the PATH they make their load themselves."""
    alone = {"PATH": str(Path(sys.executable).parent)} if "nothing" in request.param else {}
    return run_quickly(tmp_path_factory.mktemp("bench"), *STORES, **alone)


def rows_of(run: Run, benchmark: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in run.reports[benchmark]["rows"]}


def test_a_quick_run_measures_every_row_and_names_what_it_left_out(tmp_path: Path) -> None:
    reports, said = run_quickly(tmp_path, "check")
    report = reports["check"]

    assert {row["name"] for row in report["rows"]} >= OURS
    assert all(row["cpu_us"]["median"] > 0 and row["per_second"]["median"] > 0 for row in report["rows"])
    assert {row["group"] for row in report["rows"]} == {"store", "memory", "sync"}
    for peer in PEERS:
        measured = any(row["name"].startswith(peer) for row in report["rows"])
        assert measured or f"left out: {peer}" in said
    assert all({"id", "ratio", "found", "wanted", "met"} <= goal.keys() for goal in report["goals"])


def test_a_store_is_saturated_by_ours_and_by_the_classic_script_in_one_run(run: Run) -> None:
    rows = rows_of(run, "saturate")

    for name in ("limen check, 64 at once", "limen check, two rules, 64 at once", "classic script, unpipelined"):
        assert rows[f"Valkey: {name}"]["per_second"]["median"] > 0
        assert rows[f"Valkey: {name}"]["store_us"]["median"] > 0
    assert {goal["id"] for goal in run.reports["saturate"]["goals"]} >= {"P3 Valkey", "P4b Valkey"}


def test_a_second_rule_of_a_client_takes_less_memory_than_the_first(run: Run) -> None:
    rows = rows_of(run, "memory")

    assert 0 < rows["Valkey: rule 2"]["bytes"] < rows["Valkey: one rule"]["bytes"]
    assert {goal["id"] for goal in run.reports["memory"]["goals"]} >= {"P4 Valkey"}


def test_cancelled_checks_leave_every_verdict_right_and_a_forgetful_connection_is_found_out(tmp_path: Path) -> None:
    report = run_quickly(tmp_path, "cancel").reports["cancel"]
    limen, control = report["rows"]

    assert limen["cancelled"] >= 500
    assert limen["counted_all_the_same"] > 0, "no check was cancelled after it had reached the store"
    assert limen["verdicts_judged"] > 0
    assert (limen["wrong"], control["wrong"] > 0) == (0, True), report["wrong"]


def test_a_flood_of_keys_is_answered_without_errors_and_frees_nobody(run: Run) -> None:
    ours = rows_of(run, "flood")["Valkey: volatile-ttl"]

    assert (ours["script_errors"], ours["still_limited_%"]) == (0, 100)


def test_rules_are_found_among_many_and_changed_while_requests_are_decided(tmp_path: Path) -> None:
    reports = run_quickly(tmp_path, "match", "swap").reports

    assert [row["name"] for row in reports["match"]["rows"]] == ["1 rules", "100 rules", "1,000 rules", "10,000 rules"]
    assert all(row["match_us"]["median"] > row["floor_us"]["median"] for row in reports["match"]["rows"])
    assert [row["name"] for row in reports["swap"]["rows"]][1:] == ["one rule changes", "all rules change"]
    assert {goal["id"] for report in reports.values() for goal in report["goals"]} == {"P14"}


def test_every_server_is_measured_or_left_out_by_name(run: Run) -> None:
    for name in STORES:
        report = run.reports[name]
        measured = any(row["name"].startswith("Redis") for row in report["rows"])
        assert measured or "left out: Redis: redis-server is not installed" in run.said


def test_a_log_is_replayed_beside_reading_it_alone(tmp_path: Path) -> None:
    reports, said = run_quickly(tmp_path, "replay")
    rows = {row["name"]: row for row in reports["replay"]["rows"]}
    assert rows.keys() == {"floor: read and split", "limen replay, 1 rule", "limen replay, 3 rules"}
    assert all(row["lines_per_s"]["median"] > 0 and row["lines_per_cpu_s"]["median"] > 0 for row in rows.values())
    assert "lines per s" in said
