"""From bucket levels, or from their absence, to a decision. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

from limen.core.algorithm import AnyLimit, Seen
from limen.core.decision import Compared, Decision, Reason, Source
from limen.core.limit import Limit
from limen.engine.plan import Plan
from limen.rules.model import Rule
from limen.stores.base import Op

__all__ = [
    "UNDECIDED_RETRY_MS",
    "conclude",
    "conclude_any",
    "conclude_banned",
    "conclude_one",
    "no_limit",
    "undecided",
]

UNDECIDED_RETRY_MS = 1000
"""What a client is told when the store cannot answer and its rule is closed: by then it has been probed again."""

_new = tuple.__new__


def no_limit(shadow: tuple[str, ...] = ()) -> Decision:
    """Nothing limits this request."""
    return Decision(True, None, None, 0, None, None, "allowed", "none", shadow=shadow)


def conclude_banned(rule: Rule) -> Decision:
    """A limit of 0: refused, now and for ever, and no store is asked."""
    return Decision(False, 0, 0, None, None, rule.id, "exceeds_capacity", "none", policy=rule.policy)


def undecided(rule: Rule) -> Decision:
    """The store cannot answer and the rule is closed."""
    return Decision(
        False, None, None, UNDECIDED_RETRY_MS, None, rule.id, "store_unavailable", "none", True, policy=rule.policy
    )


def conclude_one(rule: Rule, limit: Limit, cost: int, level: int, source: Source, degraded: bool = False) -> Decision:
    """The decision when one enforced token bucket applies: the common case, without a detour.

    Args:
        level: ticks in the bucket before the decision.
    """
    token_ticks, per_ms, capacity = limit.token_ticks, limit.ticks_per_ms, limit.capacity
    left = level - cost * token_ticks
    if not per_ms or level > limit.full_ticks or cost > capacity:  # never refills; holds a grant; never fits
        return conclude_any(rule, limit, cost, level, source, degraded)
    if left < 0:
        return _denied_one(rule, limit, -left, level, source, degraded)
    reset_ms, policy = -((left - limit.full_ticks) // per_ms), rule.policy
    return _new(
        Decision,
        (
            True, capacity, left // token_ticks, 0, reset_ms, rule.id, "allowed", source, degraded, (), policy, True,
            None, (),
        ),
    )  # fmt: skip


def _denied_one(rule: Rule, limit: Limit, missing: int, level: int, source: Source, degraded: bool) -> Decision:
    """`_denied` for a token bucket that lacks `missing` ticks and will have them."""
    per_ms, capacity, left = limit.ticks_per_ms, limit.capacity, level // limit.token_ticks
    retry_ms, reset_ms = -(-missing // per_ms), -((level - limit.full_ticks) // per_ms)
    return _new(
        Decision,
        (
            False, capacity, left, retry_ms, reset_ms, rule.id, "over_limit", source, degraded, (), rule.policy, True,
            None, (),
        ),
    )  # fmt: skip


def conclude(
    plan: Plan,
    seen: Sequence[Seen],
    source: Source,
    *,
    spend: bool = True,
    degraded: bool = False,
    atomic: bool = True,
) -> Decision:
    """The decision when several rules apply. All enforced ones must allow; the one nearest exhaustion is shown.

    Args:
        seen: what was in each bucket before the decision, in the order of `plan.ops`.
        spend: whether the store took the cost of what was allowed.
        atomic: whether it was decided in one step.
    """
    found = [_Finding(*each) for each in zip(plan.rules, plan.ops, seen, strict=True)]
    enforced = [each for each in found if each.op.enforce]
    shadow, compared = ((), ()) if len(enforced) == len(found) else (_would_have_denied(found), _compared(found))
    if not enforced:
        return no_limit(shadow)._replace(candidates=compared)
    denied = [each for each in enforced if not each.allowed]
    shown = max(denied, key=_Finding.wait) if denied else min(enforced, key=_Finding.nearness)
    decision = conclude_any(shown.rule, shown.limit, shown.op.cost, shown.seen, source, degraded, spend)
    if not shadow and not compared and atomic:
        return decision
    return decision._replace(shadow=shadow, candidates=compared, atomic=atomic)


def conclude_any(
    rule: Rule, limit: AnyLimit, cost: int, seen: Seen, source: Source, degraded: bool = False, spend: bool = True
) -> Decision:
    """The decision of one bucket, whatever counts in it."""
    if not limit.allows(seen, cost):
        return _denied(rule, limit, cost, seen, source, degraded)
    left = limit.after(seen, cost) if spend else seen
    remaining, reset_ms = limit.remaining(left), _ms(limit.reset_after_us(left))
    return Decision(
        True, limit.capacity, remaining, 0, reset_ms, rule.id, "allowed", source, degraded, policy=rule.policy
    )


class _Finding:
    """What was found in one bucket."""

    __slots__ = ("allowed", "limit", "op", "rule", "seen")

    def __init__(self, rule: Rule, op: Op, seen: Seen) -> None:
        self.rule = rule
        self.op = op
        self.seen = seen
        self.limit = op.limit
        self.allowed = op.limit.allows(seen, op.cost)

    def wait(self) -> float:
        wait = self.limit.retry_after_us(self.seen, self.op.cost)
        return inf if wait is None else wait

    def nearness(self) -> tuple[int, float]:
        """Whole tokens left, then how long until all are there: the smallest is nearest exhaustion."""
        left = self.limit.after(self.seen, self.op.cost)
        reset = self.limit.reset_after_us(left)
        return self.limit.remaining(left), -inf if reset is None else -reset


def _would_have_denied(found: Iterable[_Finding]) -> tuple[str, ...]:
    """Rules in shadow mode whose tokens were not there."""
    return tuple(each.rule.id for each in found if not each.op.enforce and not each.allowed and not each.op.beside)


def _compared(found: Sequence[_Finding]) -> tuple[Compared, ...]:
    """What candidates make of a request that every other rule lets pass; each stands behind the limit in force."""
    refusing = [each.rule for each in found if each.op.enforce and not each.allowed]
    return tuple(
        Compared(live.rule.id, live.allowed, each.allowed)
        for live, each in pairwise(found)
        if each.op.beside and all(rule is live.rule for rule in refusing)
    )


def _denied(rule: Rule, limit: AnyLimit, cost: int, seen: Seen, source: Source, degraded: bool) -> Decision:
    reason: Reason = "exceeds_capacity" if cost > limit.capacity else "over_limit"
    retry_ms, reset_ms = _ms(limit.retry_after_us(seen, cost)), _ms(limit.reset_after_us(seen))
    remaining = limit.remaining(seen)
    return Decision(
        False, limit.capacity, remaining, retry_ms, reset_ms, rule.id, reason, source, degraded, policy=rule.policy
    )


def _ms(us: int | None) -> int | None:
    """Whole milliseconds, rounded up; None for never."""
    return None if us is None else -(-us // 1000)
