"""What a fault did, written down for the table of docs/faults.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.faults.fleet.findings import Findings, Part

__all__ = ["DEADLINE_MS", "FOLDER", "Row"]

FOLDER = Path(__file__).resolve().parents[3] / ".results" / "faults"
DEADLINE_MS = 5.0
PATIENT = 4
"""So many deadlines a decision may take at most, without what the event loop itself was late: a process that is never
idle may take two, and other processes of the machine take what they take."""

TIMES_AS_MANY, SOME = 3, 0.03


class Row:
    """One fault, injected once.

    Args:
        number: `F1`.
        fault: what it is called.
        length: `short` or `long`.
    """

    def __init__(self, number: str, fault: str, length: str) -> None:
        self.number = number
        self.fault = fault
        self.length = length
        self.injected = self.promised = ""
        self.measured: dict[str, Any] = {}
        self.path.unlink(missing_ok=True)

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.number}-{self.length}.json"

    def of(self, injected: str, promised: str) -> None:
        """What is done, and what must hold, in words for users."""
        self.injected, self.promised = injected, promised

    def saw(self, **measured: Any) -> None:
        """Numbers or words, by what they say."""
        self.measured.update(measured)

    def swift(self, rounds: int = 1, /, **parts: Part) -> None:
        """Note how long decisions took, and hold that the slowest waited for a few deadlines at most, for each time
        that a question may be sent.

        What the event loop of the process was late does not count, nor as much again: a machine that gives it no
        processor gives the server none either.
        """
        for name, part in parts.items():
            found = part.latency()
            self.measured[f"slowest decision {name}".strip()] = _times(found)
            beyond_ms, slowest = part.slowest_beyond_lateness()
            assert beyond_ms <= rounds * PATIENT * DEADLINE_MS, (name, found, slowest)

    def undisturbed(self, before: Part, now: Part) -> None:
        """Hold that hardly more was decided without the store than before. An answer is late now and then, when the
        machine does something else: how much it does that, the event loops tell."""
        was, is_now = len(before.degraded) / len(before), len(now.degraded) / len(now)
        may_be = TIMES_AS_MANY * (was + now.lateness()) + SOME
        assert is_now <= may_be, f"{100 * is_now:.1f} % without the store, before {100 * was:.1f} %"

    def bounded(self, seen: Findings, *rules: str) -> None:
        """Hold that each rule stayed within the bound that it declares."""
        for rule in rules:
            checker, declared, bound = seen.checker(rule), seen.declared_tokens(rule), seen.bound_tokens(rule)
            worst = checker.worst()
            over = 0.0 if worst is None else max(0.0, round(float(worst.tokens), 2))
            beyond = f", {float(bound):.1f} with what the bound says in words" if bound > declared else ""
            self.measured[f"over the limit, {rule}"] = f"{over:g} tokens; the bound is {float(declared):g}{beyond}"
            checker.check(bound_tokens=bound)

    def write(self, passed: bool) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        told = {
            "number": self.number, "fault": self.fault, "length": self.length, "injected": self.injected,
            "promised": self.promised, "measured": self.measured, "passed": passed,
        }  # fmt: skip
        self.path.write_text(json.dumps(told, indent=1, default=str) + "\n")


def _times(found: dict[str, float]) -> str:
    late = f" while its event loop was late {found['loop_max']:.1f} ms" if found["loop_max"] else ""
    return f"{found['max']:.1f} ms{late} (p99 {found['p99']:.2f} ms)"
