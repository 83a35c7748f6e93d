"""What a run found, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.soak.plan import Step
from tests.soak.watch import Sample, Usage

__all__ = ["Minute", "Outcome", "write"]


class Minute(NamedTuple):
    """A fault and what came of it."""

    step: Step
    well_s: float
    """Seconds until all was well again after it."""
    degraded: int
    """Decisions without the store."""
    over: float
    """Tokens over a limit in this minute, at most."""


@dataclass
class Outcome:
    """The whole of a run."""

    seed: int
    minutes: int
    began: str
    steps: list[Minute] = field(default_factory=list)
    decided: int = 0
    degraded: int = 0
    bounds: list[dict[str, Any]] = field(default_factory=list)
    """By rule: its bound, and the worst that was seen."""
    usage: list[Usage] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    """What `usage` was made of; in the JSON alone."""
    keys: int = 0
    """That expire, or not: at the end."""
    failures: list[str] = field(default_factory=list)
    """What was promised and did not hold."""

    @property
    def passed(self) -> bool:
        return not self.failures


def write(outcome: Outcome, folder: Path) -> Path:
    """Put `report.json` and `report.md` into a folder; the latter's path."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {**asdict(outcome), "passed": outcome.passed}
    (folder / "report.json").write_text(json.dumps(document, indent=1, default=str) + "\n")
    page = folder / "report.md"
    page.write_text(markdown(outcome))
    return page


def markdown(outcome: Outcome) -> str:
    """The same as a page."""
    return "\n\n".join(
        [
            f"# Soak, seed {outcome.seed}: {'passed' if outcome.passed else 'FAILED'}",
            f"{outcome.minutes} minutes from {outcome.began}. {outcome.decided} decisions, {outcome.degraded} of them "
            f"without the store. {outcome.keys} keys at the end.",
            *(f"**{failure}**" for failure in outcome.failures),
            _table(
                ["rule", "over the limit by at most", "may be", "in admissions"],
                [[each["rule"], each["worst"], each["bound"], each["admissions"]] for each in outcome.bounds],
            ),
            _table(
                ["process", "watched", "memory", "more files"],
                [[u.process, f"{u.seconds / 60:.0f} min", f"{100 * u.growth_per_hour:+.2f} %/h", u.more_files]
                 for u in outcome.usage],
            ),
            _table(
                ["minute", "fault", "lasted", "all well after", "decided without the store", "over the limit"],
                [[s.minute, s.fault, f"{s.seconds:g} s", f"{well_s:.1f} s", degraded, f"{over:.1f} tokens"]
                 for s, well_s, degraded, over in outcome.steps],
            ),
        ]
    ) + "\n"  # fmt: skip


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
