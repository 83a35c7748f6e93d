"""Ratios that were promised, and how they came out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.case import Measured
from bench.numbers import Spread, ratio

__all__ = ["Goal", "judged", "ratio_found"]


class Goal(NamedTuple):
    """A ratio that was promised: `of` of one row by that of another."""

    id: str
    words: str
    upper: Hashable
    lower: Hashable
    of: Any
    wanted: float
    at_least: bool = True


def ratio_found(goal: Goal, results: Mapping[Any, Sequence[Measured]]) -> dict[str, Any] | None:
    """The goal beside what was measured; None when one of its rows was left out."""
    upper, lower = results.get(goal.upper), results.get(goal.lower)
    if upper is None or lower is None:
        return None
    return judged(goal.id, goal.words, ratio(upper, lower, goal.of), goal.wanted, goal.at_least)


def judged(name: str, words: str, found: Spread, wanted: float, at_least: bool) -> dict[str, Any]:
    """What was found beside what was wanted."""
    met = found.median >= wanted if at_least else found.median <= wanted
    sign = "≥" if at_least else "≤"
    return {"id": name, "ratio": words, "found": found._asdict(), "wanted": f"{sign} {wanted:g}", "met": met}
