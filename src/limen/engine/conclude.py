"""From bucket levels, or from their absence, to a decision. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from limen.core.decision import Decision, Reason, Source
from limen.core.limit import Limit
from limen.core.token_bucket import retry_after_us
from limen.engine.plan import Plan
from limen.rules.model import Rule
from limen.stores.base import Op

__all__ = ["UNDECIDED_RETRY_MS", "conclude", "conclude_banned", "conclude_one", "no_limit", "undecided"]

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
    """The decision when one enforced rule applies: the common case, without a detour.

    Args:
        level: ticks in the bucket before the decision.
    """
    token_ticks, per_ms = limit.token_ticks, limit.ticks_per_ms
    left = level - cost * token_ticks
    if left < 0:
        return _denied(rule, limit, cost, level, source, degraded)
    reset_ms = -((left - limit.full_ticks) // per_ms) if per_ms else _ms(limit.full_ticks - left, limit)
    return _new(
        Decision,
        (
            True,
            limit.capacity,
            left // token_ticks,
            0,
            reset_ms,
            rule.id,
            "allowed",
            source,
            degraded,
            (),
            rule.policy,
        ),
    )


def conclude(
    plan: Plan, levels: Sequence[int], source: Source, *, spend: bool = True, degraded: bool = False
) -> Decision:
    """The decision when several rules apply. All enforced ones must allow; the one nearest exhaustion is shown.

    Args:
        levels: ticks in each bucket before the decision, in the order of `plan.ops`.
        spend: whether the store took the cost of what was allowed.
    """
    found = [_Finding(*each) for each in zip(plan.rules, plan.ops, levels, strict=True)]
    enforced = [each for each in found if each.op.enforce]
    shadow = () if len(enforced) == len(found) else _would_have_denied(found)
    if not enforced:
        return no_limit(shadow)
    denied = [each for each in enforced if each.left < 0]
    if denied:
        worst = max(denied, key=_Finding.wait)
        return _denied(worst.rule, worst.limit, worst.op.cost, worst.level, source, degraded, shadow)
    shown = min(enforced, key=_Finding.nearness)
    rule, limit, left = shown.rule, shown.limit, shown.left if spend else shown.level
    reset_ms = _ms(limit.full_ticks - left, limit)
    return _new(
        Decision,
        (
            True,
            limit.capacity,
            left // limit.token_ticks,
            0,
            reset_ms,
            rule.id,
            "allowed",
            source,
            degraded,
            shadow,
            rule.policy,
        ),
    )


class _Finding:
    """What was found in one bucket, and what is left of it when the cost is taken: less than 0 when it is not there."""

    __slots__ = ("left", "level", "limit", "op", "rule")

    def __init__(self, rule: Rule, op: Op, level: int) -> None:
        self.rule = rule
        self.op = op
        self.level = level
        self.limit = limit = op.limit
        self.left = level - op.cost * limit.token_ticks

    def wait(self) -> float:
        wait = retry_after_us(self.level, self.limit, self.op.cost)
        return inf if wait is None else wait

    def nearness(self) -> tuple[int, float]:
        """Whole tokens left, then how long until full: the smallest is nearest exhaustion."""
        limit, left = self.limit, self.left
        per_us, missing = limit.ticks_per_us, limit.full_ticks - left
        return left // limit.token_ticks, -missing // per_us if per_us else -inf if missing else 0


def _would_have_denied(found: Iterable[_Finding]) -> tuple[str, ...]:
    """Rules in shadow mode whose tokens were not there."""
    return tuple(each.rule.id for each in found if not each.op.enforce and each.left < 0)


def _denied(
    rule: Rule, limit: Limit, cost: int, level: int, source: Source, degraded: bool, shadow: tuple[str, ...] = ()
) -> Decision:
    capacity, token_ticks, per_ms = limit.capacity, limit.token_ticks, limit.ticks_per_ms
    reason: Reason = "over_limit"
    retry_ms = -((level - cost * token_ticks) // per_ms) if per_ms else None
    reset_ms = -((level - limit.full_ticks) // per_ms) if per_ms else _ms(limit.full_ticks - level, limit)
    if cost > capacity:
        reason, retry_ms = "exceeds_capacity", None
    left = level // token_ticks
    return _new(
        Decision,
        (False, capacity, left, retry_ms, reset_ms, rule.id, reason, source, degraded, shadow, rule.policy),
    )


def _ms(ticks: int, limit: Limit) -> int | None:
    """Whole milliseconds until so many ticks have grown, rounded up; None for never."""
    if ticks <= 0:
        return 0
    return -(-ticks // limit.ticks_per_ms) if limit.ticks_per_ms else None
