"""A rule with another limit, for one client or one plan. Pure.

It counts in the same bucket: what the client has spent stays spent when its limit changes, and what is left is clamped
to the new capacity. So the other limit counts in the same way as the rule's, and the bucket must be of nobody else.
"""

from __future__ import annotations

from copy import copy
from typing import Literal

from limen.core.algorithm import AnyLimit
from limen.core.carry import AS_IS
from limen.core.concurrency import SlotLimit
from limen.core.decision import Policy
from limen.core.limit import Limit
from limen.errors import UsageError
from limen.rules.limit_text import limit_from_text
from limen.rules.model import Rule

__all__ = ["covers", "overridden", "overridden_for"]

OWNERS = {"client": ("client",), "plan": ("plan", "client", "user")}
"""What must be in the key of a rule, so that its buckets are of one client, or of one plan."""


def overridden(rule: Rule, text: str) -> Rule:
    """The rule with the limit that `text` stands for.

    Raises:
        UsageError: that is no limit, or none for this rule; says what to write instead.
    """
    limit = limit_from_text(text, None if rule.limit is None else rule.algorithm)
    _check_kind(rule, limit, text)
    _check_costs(rule, limit)
    variant = copy(rule)
    variant.limit = limit
    variant.candidate = None
    variant.carry = None if rule.carry is None else rule.carry._replace(how=AS_IS)
    variant.policy = None if limit is None else _policy(rule, limit)
    if type(limit) is not Limit:
        variant.lease = None
    return variant


def overridden_for(rule: Rule, by: Literal["client", "plan"], text: str) -> Rule:
    """The same, where the limit would be that of one client, or of one plan, alone.

    Raises:
        UsageError: that is no limit, or none for this rule, or others share the buckets.
    """
    if not covers(rule, by):
        wanted = " or ".join(OWNERS[by])
        counted = ", ".join(rule.key_by) or "nothing: everybody shares one bucket"
        raise UsageError(f"rule {rule.id!r} counts by {counted}; a {by} has a limit of its own where it is {wanted}")
    return overridden(rule, text)


def covers(rule: Rule, by: Literal["client", "plan"]) -> bool:
    """Whether each bucket of the rule is of one client, or of one plan."""
    return any(part in rule.key_by for part in OWNERS[by])


def _policy(rule: Rule, limit: AnyLimit | SlotLimit) -> Policy:
    return Policy(rule.public_name, limit.capacity, None if isinstance(limit, SlotLimit) else limit.window_s)


def _check_kind(rule: Rule, limit: AnyLimit | SlotLimit | None, text: str) -> None:
    if limit is None or rule.limit is None or limit.algorithm == rule.limit.algorithm:
        return
    raise UsageError(
        f"{text!r} is a {_named(limit)}, and rule {rule.id!r} a {_named(rule.limit)}: "
        "write a limit of the same kind, so that what was spent stays spent"
    )


def _named(limit: AnyLimit | SlotLimit) -> str:
    return limit.algorithm.replace("_", " ")


def _check_costs(rule: Rule, limit: AnyLimit | SlotLimit | None) -> None:
    if limit is None or isinstance(limit, SlotLimit) or not limit.capacity:
        return
    dearest = max(rule.cost.default, *(special.cost for special in rule.cost.special), 0)
    if dearest > limit.capacity:
        raise UsageError(
            f"a request of rule {rule.id!r} that costs {dearest} can never pass a bucket of {limit.capacity}; "
            f"write {dearest} or more, or 0 to refuse everything"
        )
