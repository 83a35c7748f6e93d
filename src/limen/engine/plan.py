"""From a question to store operations. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from limen.core.concurrency import SlotLimit
from limen.core.limit import Limit
from limen.errors import UsageError
from limen.rules.key import identity_of_client
from limen.rules.model import Rule, check_cost
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.stores.base import Op, Slot

__all__ = ["Plan", "SlotPlan", "find_rule", "plain_rules", "plan_check", "plan_request", "plan_slot"]

_new = tuple.__new__
"""Makes a named tuple in half the time."""


class Plan(NamedTuple):
    """The rules that apply and what each asks of the store, side by side."""

    rules: Sequence[Rule]
    ops: Sequence[Op]


class SlotPlan(NamedTuple):
    """A slot to ask for, and the rule that wants it."""

    rule: Rule
    slot: Slot


def plain_rules(ruleset: RuleSet) -> dict[str, tuple[Rule, Limit]]:
    """The rules that count plainly, one token bucket for each client, and that `check` can take a short cut for."""
    return {
        rule.id: (rule, rule.limit)
        for rule in ruleset.rules
        if type(rule.limit) is Limit
        and rule.limit.capacity
        and not rule.colocate
        and rule.key_by == ("client",)
        and rule.mode == "enforce"
        and rule.rollout == 100
    }


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


def plan_check(ruleset: RuleSet, client: str, rule_id: str, cost: int) -> Plan:
    """One named rule for one named client.

    Raises:
        UsageError: an unknown rule, a cost that is not a whole number of tokens, a key of several parts.
    """
    rule = find_rule(ruleset, rule_id)
    if type(cost) is not int or cost < 0:
        check_cost(cost)
    identity = identity_of_client(client, rule.key_by)
    limit = rule.limit
    if isinstance(limit, SlotLimit):
        raise UsageError(f"rule {rule_id!r} limits how many run at a time; ask for a slot: limiter.slot(client, rule)")
    if limit is None or rule.mode == "off" or not rule.covers_key(identity):
        return NOTHING
    return Plan((rule,), (Op(identity, rule.id, limit, cost, rule.mode == "enforce", True, rule.colocate),))


def plan_request(ruleset: RuleSet, request: Request) -> Plan:
    """Every rule that applies to a request, each at its own cost. Slots are not taken: they are held, not spent."""
    matching, segments = ruleset.matching(request)
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
        ops.append(_new(Op, (identity, rule.id, limit, cost, rule.mode == "enforce", True, rule.colocate)))
    return _new(Plan, (rules, ops))


def plan_slot(ruleset: RuleSet, client: str, rule_id: str, holder: str) -> SlotPlan | None:
    """The slot that a client needs under a named rule; None when it needs none.

    Raises:
        UsageError: an unknown rule, or one that does not limit how many run at a time.
    """
    rule = find_rule(ruleset, rule_id)
    limit = rule.limit
    if limit is None:
        return None
    if not isinstance(limit, SlotLimit):
        raise UsageError(f"rule {rule_id!r} does not limit how many run at a time; use limiter.check(client, rule)")
    identity = identity_of_client(client, rule.key_by)
    if rule.mode == "off" or not rule.covers_key(identity):
        return None
    return SlotPlan(rule, Slot(identity, rule.id, limit, holder, rule.colocate))
