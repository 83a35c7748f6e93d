"""What happens in each minute: told by the seed alone, so that a run can be had again."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tests.soak.faults import FAULTS

__all__ = ["Step", "plan"]

SHORTEST_S, LONGEST_S = 1.0, 12.0


class Step(NamedTuple):
    """One fault."""

    minute: int
    fault: str
    seconds: float
    """How long it lasts, for those that last."""
    chance: int
    """A seed for whatever else it leaves to chance: which server, which gateway."""


def plan(seed: int, minutes: int) -> list[Step]:
    """Every fault once before any comes again; none in the first minute."""
    chance = Random(seed)
    steps: list[Step] = []
    left: list[str] = []
    for minute in range(1, minutes):
        left = left or chance.sample(sorted(FAULTS), len(FAULTS))
        steps.append(Step(minute, left.pop(), round(chance.uniform(SHORTEST_S, LONGEST_S), 1), chance.randrange(2**32)))
    return steps
