"""One fault after the other, as the seed has it: the run that `./dev soak` makes for hours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.faults.fleet.row import Row
from tests.soak.run import Wish, soak


def test_F38_soak(row: Row, length: Any, tmp_path: Path) -> None:
    minutes, minute_s = length.pick(4, 10), length.pick(8.0, 45.0)
    row.of(
        f"{minutes - 1} random faults, {minute_s:g} s apart; `./dev soak --hours H --seed S` has one each minute",
        "memory +1 % an hour at most, files flat, no key without expiry, limits kept, no exception",
    )
    outcome = soak(Wish(minutes, 38, tmp_path, minute_s, tell=lambda line: None))
    row.saw(**{each.step.fault: f"all well {each.well_s:.1f} s later" for each in outcome.steps})
    row.saw(
        **{
            f"over the limit, {each['rule']}": f"{each['worst']} where {each['bound']} may be"
            for each in outcome.bounds
        }
    )
    assert outcome.failures == []
    assert len(outcome.steps) == minutes - 1
    assert outcome.degraded, "faults were felt"
