"""What a client must be told next: its account, kept outside of the limiter."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import NamedTuple

from limen import Decision, Rule

__all__ = ["RULES", "Account", "Wrong"]

REFILL = Fraction(1, 3600)
"""A token an hour: none comes back while an account is kept, so every answer is known exactly."""
RULES = [Rule(f"bench-{capacity}", capacity=capacity, refill_per_sec=REFILL) for capacity in (20, 500, 100_000)]
DEAREST = 97
_numbers = itertools.count()


class Wrong(NamedTuple):
    """A verdict that cannot be right."""

    client: str
    cost: int
    told: tuple[bool, int | None]
    source: str
    lefts: list[int]


class Account:
    """A client that nobody else uses, under one of the rules.

    `lefts` is what it may have left, the most first: several amounts while cancelled checks may have been counted.
    """

    def __init__(self) -> None:
        self.client = f"client-{next(_numbers)}"
        rule = random.choice(RULES)
        assert rule.limit is not None
        self.rule = rule.id
        capacity = rule.limit.capacity
        self.lefts = [capacity]
        self._dearest = min(DEAREST, capacity // 4)
        self._first = capacity // 2 if capacity > 1000 else self._dearest
        """So much is spent at first that no two clients with much left are likely to have the same left."""

    def next_cost(self) -> int:
        dearest, self._first = self._first, self._dearest
        return random.randint(1, dearest)

    def doubt(self, cost: int) -> None:
        """Enter a cancelled check: it was counted once, or not at all."""
        counted = {left - cost for left in self.lefts if left >= cost}
        self.lefts = sorted(counted.union(self.lefts), reverse=True)

    def settle(self, cost: int, decision: Decision) -> Wrong | None:
        """Enter what a check was told; what is wrong about it, if anything is."""
        told = (decision.allowed, decision.remaining)
        if decision.source == "deny_cache":
            most = -1 if decision.allowed or decision.remaining is None else decision.remaining
            fitting = [left for left in self.lefts if left < cost and left <= most]
            after = fitting  # it knows the most that can be left, so it settles no doubt
        else:
            fitting = [left for left in self.lefts if _verdict(left, cost) == told]
            after = [left - cost if decision.allowed else left for left in fitting]
        if not fitting:
            return Wrong(self.client, cost, told, decision.source, self.lefts)
        self.lefts = after
        return None


def _verdict(left: int, cost: int) -> tuple[bool, int]:
    return (True, left - cost) if cost <= left else (False, left)
