"""The long run, short: its plan, what it is watched for, and that it finds what is broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.fleet.record import FORMAT
from tests.soak.faults import FAULTS
from tests.soak.plan import Step, plan
from tests.soak.report import Minute, Outcome, write
from tests.soak.watch import Ledger, Sample, Usage, keys_for_ever, usage
from tests.topologies.servers import Server


def test_a_seed_makes_the_same_faults_and_another_seed_others() -> None:
    assert plan(7, 100) == plan(7, 100)
    assert plan(7, 100) != plan(8, 100)
    assert plan(7, 40) == plan(7, 100)[:39], "a longer run goes on as the shorter one began"


def test_every_fault_comes_before_any_comes_again_and_none_in_the_first_minute() -> None:
    steps = plan(3, 2 * len(FAULTS) + 1)
    assert [step.minute for step in steps] == list(range(1, 2 * len(FAULTS) + 1))
    first, second = steps[: len(FAULTS)], steps[len(FAULTS) :]
    assert {step.fault for step in first} == {step.fault for step in second} == set(FAULTS)


def test_memory_that_grows_is_told_as_a_part_of_itself_each_hour() -> None:
    flat = [Sample("flat", 60.0 * at, 50_000 + at % 2, 20) for at in range(121)]
    leak = [Sample("leak", 60.0 * at, 50_000 + 25 * at, 20 + at // 60) for at in range(121)]
    young = [Sample("young", 60.0 * at, 1000 * at, 0) for at in range(10)]
    found = {each.process: each for each in usage(flat + leak + young, from_s=0.0, least_s=1800.0)}
    assert found.keys() == {"flat", "leak"}
    assert abs(found["flat"].growth_per_hour) < 0.0001
    assert found["leak"] == Usage("leak", 7200.0, pytest.approx(0.03), 2)


def test_what_grows_while_it_warms_up_does_not_count() -> None:
    found = [Sample("p", 60.0 * at, min(at, 5) * 10_000, 9) for at in range(60)]
    assert usage(found, from_s=300.0, least_s=1800.0)[0].growth_per_hour == pytest.approx(0)


def test_a_bucket_that_never_expires_is_found(tmp_path: Path) -> None:
    server = Server("valkey", tmp_path)
    try:
        server.ask("SET", "limen{a}", "1", "EX", 100)
        assert keys_for_ever([server]) == []
        server.ask("SET", "limen{b}", "1")
        assert keys_for_ever([server]) == ["b'limen{b}'"]
    finally:
        server.stop()


class Telling:
    """A gateway that let through what it was told to say."""

    number = 0

    def __init__(self, folder: Path, *records: bytes) -> None:
        self.file = folder / "decisions"
        self.file.write_bytes(b"".join(records))

    def do(self, command: str) -> dict[str, Any]:
        assert command == "report"
        return {"decisions": str(self.file), "unhandled": ["oh"], "inside": {"rss_kb": 1, "files": 2}}


def test_too_much_let_through_is_found_and_nothing_is_kept_twice(tmp_path: Path) -> None:
    ledger = Ledger([{"id": "api", "limit": "2/second"}])
    allowed = [FORMAT.pack(at, at + 1, 0, 7, 1, 200, 0, True, 0, 0) for at in range(3)]
    gateway: Any = Telling(tmp_path, *allowed)
    ledger.take(gateway, 60.0)
    ledger.settle()
    assert not gateway.file.exists()
    assert (ledger.decided, ledger.unhandled) == (3, ["oh"])
    with pytest.raises(AssertionError, match="key 7: 3 tokens"):
        ledger.checkers[0].check()
    assert ledger.most_over() > 0.99
    assert ledger.most_over() == 0, "since the last time"


def test_the_report_says_what_failed(tmp_path: Path) -> None:
    outcome = Outcome(5, 2, "2026-01-01", steps=[Minute(Step(1, "primary crash", 3.5, 9), 2.0, 70, 3.25)])
    outcome.usage = [Usage("gateway 0", 3600.0, 0.001, 0)]
    outcome.bounds = [{"rule": "api", "worst": "1 %", "bound": "10 %", "admissions": 5}]
    assert write(outcome, tmp_path).read_text().startswith("# Soak, seed 5: passed")
    outcome.failures.append("3 keys never expire")
    page = write(outcome, tmp_path).read_text()
    assert page.startswith("# Soak, seed 5: FAILED")
    assert "**3 keys never expire**" in page
    assert "| 1 | primary crash | 3.5 s | 2.0 s | 70 | 3.2 tokens |" in page
    document = json.loads((tmp_path / "report.json").read_text())
    assert (document["passed"], document["seed"], document["failures"]) == (False, 5, ["3 keys never expire"])
