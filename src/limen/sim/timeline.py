"""Counts along time, in as many steps as fit a page, however long it turns out to be."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Step", "Timeline"]

US = 1_000_000
STEPS_S = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400, 364 * 86_400)
MOST_STEPS = 240


class Step(NamedTuple):
    """What happened from one moment to the next."""

    at_s: int
    """Unix time in seconds."""
    requests: int
    denied: int
    by_rule: dict[str, int]
    """Denied, by the rule that denied."""


class Timeline:
    """Counts requests and denials.

    Attributes:
        step_s: how long a step is, in seconds. It gets longer as the time grows that is to be shown.
    """

    def __init__(self) -> None:
        self.step_s = STEPS_S[0]
        self._requests = Counter[int]()
        self._denied: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def came(self, at_us: Sequence[int]) -> None:
        """Requests came at these moments, which are in order but for the first of them."""
        if not at_us:
            return
        self._make_room(min(at_us) // US, max(at_us) // US)
        step_us, at = self.step_s * US, 0
        while at < len(at_us):
            number = at_us[at] // step_us
            following = bisect_left(at_us, (number + 1) * step_us, at)
            self._requests[number] += following - at
            at = following

    def denied(self, at_us: int, rule: str) -> None:
        """A request was denied by a rule."""
        self._denied[rule][at_us // US // self.step_s] += 1

    def steps(self) -> list[Step]:
        """Every step from the first to the last, those without requests too."""
        numbers = self._requests.keys()
        if not numbers:
            return []
        return [self._step(number) for number in range(min(numbers), max(numbers) + 1)]

    def _step(self, number: int) -> Step:
        by_rule = {rule: counted[number] for rule, counted in sorted(self._denied.items()) if counted[number]}
        return Step(number * self.step_s, self._requests[number], sum(by_rule.values()), by_rule)

    def _make_room(self, first_s: int, last_s: int) -> None:
        """Make steps longer until all of them, and these moments, fit."""
        first_s = min([first_s, *(number * self.step_s for number in self._requests)])
        last_s = max([last_s, *(number * self.step_s for number in self._requests)])
        longer = self.step_s
        while last_s // longer - first_s // longer >= MOST_STEPS:
            longer = next((step for step in STEPS_S if step > longer), longer * 2)
        if longer != self.step_s:
            self._requests = self._stretched(self._requests, longer)
            for rule, counted in self._denied.items():
                self._denied[rule] = self._stretched(counted, longer)
            self.step_s = longer

    def _stretched(self, counted: Counter[int], longer: int) -> Counter[int]:
        found = Counter[int]()
        for number, count in counted.items():
            found[number * self.step_s // longer] += count
        return found
