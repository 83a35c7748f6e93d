"""From a question to store operations. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from limen.core.algorithm import AnyLimit
from limen.core.concurrency import SlotLimit
from limen.core.decision import Decision
from limen.errors import UsageError
from limen.rules.cost import check_cost
from limen.rules.key import identity_of_client
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.stores.base import Op, Slot, bucket_name, candidate_name

__all__ = [
    "Plan", "SlotPlan", "find_rule", "plan_check", "plan_request", "plan_slot", "without_candidates"
]  # fmt: skip

_new = tuple.__new__
"""Makes a named tuple in half the time."""


class Plan(NamedTuple):
    """The rules that apply and what each asks of the store, side by side."""

    rules: Sequence[Rule]
    ops: Sequence[Op]
    decision: Decision | None = None
    """What was decided before any rule was asked: then there are none here."""


class SlotPlan(NamedTuple):
    """A slot to ask for, and the rule that wants it."""

    rule: Rule
    slot: Slot


NOTHING = Plan((), ())


def find_rule(ruleset: RuleSet, rule_id: str) -> Rule:
    """The rule of that name.

    Raises:
        UsageError: there is none.
    """
    rule = ruleset.by_id.get(rule_id)
    if rule is None:
        known = ", ".join(list(ruleset.by_id)[:5]) or "none at all"
        raise UsageError(f"there is no rule {rule_id!r}; there are: {known}")
    return rule


def plan_check(
    ruleset: RuleSet, client: str, rule_id: str, cost: int, overriding: Callable[[Rule, str], Rule] | None = None
) -> Plan:
    """One named rule for one named client.

    Args:
        overriding: gives the rule with the limit that this client has, if that is another one.

    Raises:
        UsageError: an unknown rule, a cost that is not a whole number of tokens, a key of several parts.
    """
    rule = find_rule(ruleset, rule_id)
    if type(cost) is not int or cost < 0:
        check_cost(cost)
    identity = identity_of_client(client, rule.key_by)
    if overriding is not None:
        rule = overriding(rule, client)
    limit = rule.limit
    if isinstance(limit, SlotLimit):
        raise UsageError(f"rule {rule_id!r} limits how many run at a time; ask for a slot: limiter.slot(client, rule)")
    if limit is None or rule.mode == "off" or not rule.covers_key(identity):
        return NOTHING
    op = Op(identity, rule.id, limit, cost, rule.mode == "enforce", True, rule.colocate, "", rule.carry)
    if rule.candidate is None:
        return Plan((rule,), (op,))
    return Plan((rule, rule), (op, _candidate_of(op, rule.candidate)))


def _candidate_of(op: Op, candidate: AnyLimit) -> Op:
    """The same question to the bucket of a candidate."""
    beside = bucket_name(op.rule, op.limit.algorithm)
    return op._replace(rule=candidate_name(op.rule), limit=candidate, enforce=False, beside=beside, carry=None)


def without_candidates(plan: Plan) -> Plan:
    """What is asked of limits that are in force."""
    if not any(op.beside for op in plan.ops):
        return plan
    kept = [(rule, op) for rule, op in zip(plan.rules, plan.ops, strict=True) if not op.beside]
    return plan._replace(rules=[rule for rule, _ in kept], ops=[op for _, op in kept])


def plan_request(ruleset: RuleSet, request: Request, overriding: Callable[[Rule, Request], Rule] | None = None) -> Plan:
    """Every rule that applies to a request, each at its own cost. Slots are not taken: they are held, not spent.

    Args:
        overriding: gives a rule with the limit that this client has, if that is another one.
    """
    matching, segments = ruleset.matching(request)
    if overriding is not None:
        matching = [overriding(rule, request) for rule in matching]
    rules: list[Rule] = []
    ops: list[Op] = []
    for rule in matching:
        limit = rule.limit
        if limit is None or isinstance(limit, SlotLimit):
            continue
        identity = rule.key(request, segments)
        if rule.rollout != 100 and not rule.covers_key(identity):
            continue
        cost, special = rule.cost
        if special:
            cost = rule.cost_of(request, segments)
        rules.append(rule)
        op = _new(Op, (identity, rule.id, limit, cost, rule.mode == "enforce", True, rule.colocate, "", rule.carry))
        ops.append(op)
        if rule.candidate is not None:
            rules.append(rule)
            ops.append(_candidate_of(op, rule.candidate))
    return _new(Plan, (rules, ops, None))


def plan_slot(
    ruleset: RuleSet,
    client: str,
    rule_id: str,
    holder: str,
    overriding: Callable[[Rule, str], Rule] | None = None,
) -> SlotPlan | None:
    """The slot that a client needs under a named rule; None when it needs none.

    Args:
        overriding: gives the rule with the limit that this client has, if that is another one.

    Raises:
        UsageError: an unknown rule, or one that does not limit how many run at a time.
    """
    rule = find_rule(ruleset, rule_id)
    if overriding is not None:
        rule = overriding(rule, client)
    limit = rule.limit
    if limit is None:
        return None
    if not isinstance(limit, SlotLimit):
        raise UsageError(f"rule {rule_id!r} does not limit how many run at a time; use limiter.check(client, rule)")
    identity = identity_of_client(client, rule.key_by)
    if rule.mode == "off" or not rule.covers_key(identity):
        return None
    return SlotPlan(rule, Slot(identity, rule.id, limit, holder, rule.colocate))
