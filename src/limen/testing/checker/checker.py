"""Collects what was let through, and says where it exceeds its limit the most."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

from limen.core.algorithm import AnyLimit
from limen.errors import UsageError
from limen.rules.model import Rule
from limen.testing.checker.envelope import envelope_of
from limen.testing.checker.farthest import Admission, farthest
from limen.testing.checker.overshoot import Overshoot
from limen.testing.checker.settled import settled

__all__ = ["IntervalChecker"]


class IntervalChecker:
    """Holds a log of admissions against one limit. It never raises a false alarm.

    Give it what was let through by everybody who counts under the limit, and nothing that was granted on top. All
    times are of one clock; processes of one machine share `time.monotonic()`. It does not tell a reset from a fault.

    Args:
        limit: C and r, as a rule has them, `"100/minute"`; or the rule, or its `limit`.

    Raises:
        UsageError: a limit that says nothing about intervals of time.

    Example:
        >>> checker = IntervalChecker("2/second")
        >>> for us in (0, 10, 20):
        ...     checker.admitted("acme", 1, us, us + 5)
        >>> print(checker.worst())
        key 'acme': 3 tokens passed within 0.000025 s (from 0 to 25 µs), where 2.000 may: +1.000 tokens, +49.99 %
    """

    def __init__(self, limit: str | Rule | AnyLimit) -> None:
        self.limit = limit
        self._envelope = envelope_of(limit)
        self._admissions: dict[Hashable, list[Admission]] = {}
        self._settled: list[Overshoot] = []
        """The worst of what is forgotten, in tokens and as a part."""
        self._seen = 0

    def admitted(self, key: Hashable, cost: int, invoked_us: int, completed_us: int) -> None:
        """One request was let through: asked for at `invoked_us`, answered at `completed_us`. In any order.

        Args:
            key: whom the limit counts, a client as a rule.
            cost: whole tokens; 0 counts nothing.

        Raises:
            UsageError: answered before it was asked, or a negative cost.
        """
        if completed_us < invoked_us or cost < 0:
            raise UsageError(f"admitted {cost} tokens between {invoked_us} and {completed_us} µs: that cannot be")
        if cost:
            self._seen += 1
            self._admissions.setdefault(key, []).append(Admission(invoked_us, completed_us, cost))

    def __len__(self) -> int:
        """How many admissions it has seen."""
        return self._seen

    def settle(self, before_us: int) -> None:
        """Keep of what was asked before then only what later intervals can need: for runs of many hours.

        Call it when no answer to such a question is missing any more. `worst` in tokens stays exact; a ratio over an
        interval with `before_us` inside may come out too small, never too large.
        """
        self._settled = [each for each in (self.worst(), self.worst_ratio()) if each]
        for admissions in self._admissions.values():
            admissions.sort()
            admissions[:] = settled(admissions, self._envelope.per_us, before_us)

    def worst(self) -> Overshoot | None:
        """Where most tokens were over the limit; None when nothing was let through."""
        found = [*self._settled, *map(self._by_tokens, self._admissions)]
        return max(found, key=lambda each: each.tokens, default=None)

    def worst_ratio(self) -> Overshoot | None:
        """Where the largest part was over the limit; None when nothing was over it."""
        over = [found for key in self._admissions if (found := self._by_tokens(key)).tokens > 0]
        before = [each for each in self._settled if each.tokens > 0]
        return max([*before, *map(self._by_ratio, over)], key=lambda each: each.ratio, default=None)

    def check(self, bound_tokens: float | Fraction | None = None, bound_ratio: float | Fraction | None = None) -> None:
        """Assert that no interval is over the limit by more than it may be.

        By default that is nothing; under a fixed window its capacity, for around its end all of it can pass twice.

        Args:
            bound_tokens: the most tokens beyond `C + r·T`.
            bound_ratio: the most as a part of `C + r·T`: 0.1 for 10 %. With both, both must hold.

        Raises:
            AssertionError: with the interval that is worst.
        """
        if bound_ratio is None and bound_tokens is None:
            bound_tokens = self._envelope.edge
        if bound_tokens is not None and (worst := self.worst()) and worst.tokens > bound_tokens:
            raise AssertionError(self._account(worst, f"{float(bound_tokens):g} tokens"))
        if bound_ratio is not None and (worst := self.worst_ratio()) and worst.ratio > bound_ratio:
            raise AssertionError(self._account(worst, f"{100 * float(bound_ratio):g} %"))

    def _account(self, worst: Overshoot, bound: str) -> str:
        over = sum(self._by_tokens(key).tokens > 0 for key in self._admissions)
        return (
            f"the limit {self.limit!r} was exceeded by more than {bound}: {worst}. "
            f"{over} of {len(self._admissions)} keys are over it, in {len(self)} admissions."
        )

    def _by_tokens(self, key: Hashable) -> Overshoot:
        per_us = self._envelope.per_us
        return self._farthest(key, per_us.denominator, per_us.numerator)

    def _by_ratio(self, worst: Overshoot) -> Overshoot:
        """Raise the line until nothing is above it any more (Dinkelbach, 1967)."""
        while worst.allowed:
            raised = worst.admitted / worst.allowed
            slope = raised * self._envelope.per_us
            found = self._farthest(worst.key, slope.denominator, slope.numerator)
            if found.admitted <= raised * found.allowed:
                break
            worst = found
        return worst

    def _farthest(self, key: Hashable, weight: int, slope: int) -> Overshoot:
        admissions = self._admissions[key]
        admissions.sort()
        height, start_us, end_us = farthest(admissions, weight, slope)
        admitted = (height + slope * (end_us - start_us)) // weight
        return Overshoot(key, admitted, self._envelope.allowed(end_us - start_us), start_us, end_us)
