"""The overshoot bound of a rule, for people and as JSON. What it means is in `limen.core.bound`."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

from limen.core.bound import Bound, Circumstances, bound_of_limit
from limen.rules.model import Rule

__all__ = ["bound_of", "bound_to_document", "bound_to_lines"]


def bound_of(rule: Rule, gateways: int = 1, shared: bool = True) -> Bound | None:
    """How far beyond its limit a rule can go; None for one that holds nobody to a limit.

    Args:
        rule: the rule.
        gateways: N, how many processes decide.
        shared: whether buckets are in a store, not in `memory://`.
    """
    limit = rule.limit
    if limit is None or rule.mode != "enforce":
        return None
    dearest = max([rule.cost.default, *(special.cost for special in rule.cost.special)])
    given = Circumstances(gateways, rule.on_failure == "closed", _lent(rule, gateways), dearest, shared)
    return _bound(cast("Any", limit), given)


@lru_cache(maxsize=4096)
def _bound(limit: Any, given: Circumstances) -> Bound:
    """Thousands of rules have a handful of limits."""
    return bound_of_limit(limit, given)


def _lent(rule: Rule, gateways: int) -> int:
    """The most tokens of one bucket that may be on loan at once."""
    lease, limit = rule.lease, rule.limit
    if lease is None or limit is None or not lease.worth(limit.capacity, gateways):
        return 0
    return lease.most(limit.capacity)


def bound_to_document(bound: Bound, gateways: int) -> dict[str, Any]:
    """The bound as JSON: `ratio` of the capacity, `tokens`, what it is made of, and what is not in it."""
    parts = [
        {"mechanism": part.mechanism, "tokens": float(part.tokens), "always": part.always, "why": part.why}
        for part in bound.parts
    ]
    number = {"ratio": bound.ratio, "tokens": float(bound.tokens), "gateways": gateways, "untold": float(bound.untold)}
    return {**number, "parts": parts, "besides": list(bound.besides)}


def bound_to_lines(bound: Bound, gateways: int) -> list[str]:
    """The bound as lines for people."""
    fleet = "1 gateway" if gateways == 1 else f"{gateways} gateways"
    said = [f"over the limit by at most {bound.ratio:.3g} of it, {_tokens(bound.tokens)} tokens, with {fleet}"]
    said += [f"  {'always' if part.always else 'a fault'}  {_tokens(part.tokens)}  {part.why}" for part in bound.parts]
    return said + [f"  besides  {sentence}" for sentence in bound.besides]


def _tokens(tokens: Fraction) -> str:
    return f"{float(tokens):.6g}"
