"""How many tokens a request spends under a rule, as an operator writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from limen.core.algorithm import AnyLimit
from limen.errors import UsageError
from limen.rules.match import Match, match_from_mapping

__all__ = ["MAX_COST", "Cost", "check_affordable", "check_cost", "cost_from_value"]

MAX_COST = 10**9
MOST_COSTS = 200
"""Entries of `cost.when`: more would take longer than the store does."""


class SpecialCost(NamedTuple):
    match: Match
    cost: int


class Cost(NamedTuple):
    """Tokens that a request spends: the first of `special` that matches it, else `default`."""

    default: int = 1
    special: tuple[SpecialCost, ...] = ()


def check_cost(cost: object) -> int:
    """`cost` as whole tokens, 0 to 10^9.

    Raises:
        UsageError: a fraction, a negative number, text, a truth value, NaN.
    """
    if type(cost) is not int or not 0 <= cost <= MAX_COST:
        raise UsageError(f"cost must be a whole number of tokens from 0 to {MAX_COST:,}, not {cost!r}")
    return cost


def cost_from_value(raw: object) -> Cost:
    """A cost from a number, or from `{default, when}`.

    Raises:
        UsageError: says what to write instead.
    """
    if not isinstance(raw, Mapping):
        return Cost(check_cost(raw))
    unknown = set(raw) - {"default", "when"}
    if unknown:
        raise UsageError(f"cost has no field {min(map(str, unknown))!r}; it knows default and when")
    special = raw.get("when", [])
    if not isinstance(special, list):
        raise UsageError(f"cost.when is a list such as [{{path: /deep, cost: 10}}], not {special!r}")
    if len(special) > MOST_COSTS:
        raise UsageError(
            f"cost.when has {len(special)} entries, which every request waits for; {MOST_COSTS} are the most"
        )
    return Cost(check_cost(raw.get("default", 1)), tuple(_special_cost(item) for item in special))


def _special_cost(raw: object) -> SpecialCost:
    if not isinstance(raw, Mapping) or "cost" not in raw:
        raise UsageError(f"each entry of cost.when has a cost and what it matches, not {raw!r}")
    match = match_from_mapping({name: value for name, value in raw.items() if name != "cost"})
    return SpecialCost(match, check_cost(raw["cost"]))


def check_affordable(cost: Cost, limit: AnyLimit | None) -> None:
    """
    Raises:
        UsageError: a request costs more than a full bucket holds.
    """
    if limit is None or not limit.capacity:
        return
    for amount in (cost.default, *(special.cost for special in cost.special)):
        if amount > limit.capacity:
            raise UsageError(
                f"a request that costs {amount} can never pass a bucket of {limit.capacity}; "
                f"raise the capacity to {amount} or more, or lower the cost"
            )
