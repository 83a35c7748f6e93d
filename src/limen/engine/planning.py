"""From a question to a plan, by the rules in force and by what operators said of single clients. No await, no store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from limen.core.decision import Decision
from limen.core.limit import Limit
from limen.engine.plan import Plan, SlotPlan, plan_check, plan_request, plan_slot
from limen.engine.standing import Applied
from limen.errors import UsageError
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.stores.base import Op

__all__ = ["Planning", "looking"]

MOST_GRANTED = 10**9
LONGEST_GRANT_S = 30 * 86_400

_new = tuple.__new__


class Planning:
    """The part of a limiter that knows the rules."""

    _ruleset: RuleSet
    _plain: Mapping[str, tuple[Rule, Limit]]
    """Rules that `check` can take a short cut for."""
    _applied: Applied | None
    """What operators have said of single clients; None while that is nothing."""

    def _planned(self, client: str, rule: str, cost: int) -> Plan:
        """`plan_check`, with a short cut for the common kind of rule."""
        plain, applied = self._plain.get(rule), self._applied
        if applied is not None and (plain is None or applied.knows(client)):
            return self._judged(applied, client, rule, cost)
        if plain is None or type(cost) is not int or cost < 0:
            return plan_check(self._ruleset, client, rule, cost)
        op = _new(Op, ("client=" + client, rule, plain[1], cost, True, True, "", "", None))
        return _new(Plan, ((plain[0],), (op,), None))

    def _judged(self, applied: Applied, client: str, rule: str, cost: int) -> Plan:
        """The same where operators may have said something of this client."""
        plain = self._plain.get(rule)
        if plain is not None and type(cost) is int and cost >= 0:
            refused = applied.name(client, plain[0])
            if refused is not None:
                return Plan((), (), refused)
        plan = plan_check(self._ruleset, client, rule, cost, applied.rule_for_name)
        decision = applied.name(client, self._ruleset.by_id[rule])
        return plan if decision is None else Plan((), (), decision)

    def _planned_request(self, request: Request) -> Plan:
        """`plan_request`, where operators may have said something of somebody."""
        applied = self._applied
        if applied is None:
            return plan_request(self._ruleset, request)
        decision = applied.request(request)
        if decision is not None:
            return Plan((), (), decision)
        return plan_request(self._ruleset, request, applied.rule if applied.standing.overrides else None)

    def _planned_slot(self, client: str, rule: str, holder: str) -> SlotPlan | Decision | None:
        """`plan_slot`, or the decision when the client gets none whatever is free."""
        applied = self._applied
        if applied is None:
            return plan_slot(self._ruleset, client, rule, holder)
        plan = plan_slot(self._ruleset, client, rule, holder, applied.rule_for_name)
        return applied.name(client, self._ruleset.by_id[rule]) or plan

    def _grant_plan(self, client: str, rule: str, tokens: int, seconds: float) -> Plan:
        applied = self._applied
        overriding = None if applied is None else applied.rule_for_name
        return grant_plan(self._ruleset, client, rule, tokens, seconds, overriding)

    def _explainable(self, request: Request) -> Plan:
        """What is asked to explain a request: its rules, with this client's limits, though it may be blocked."""
        applied = self._applied
        plan = plan_request(self._ruleset, request, None if applied is None else applied.rule)
        return plan._replace(ops=looking(plan))


def grant_plan(
    ruleset: RuleSet,
    client: str,
    rule: str,
    tokens: int,
    seconds: float,
    overriding: Callable[[Rule, str], Rule] | None = None,
) -> Plan:
    """The bucket that tokens are granted on.

    Args:
        overriding: gives the rule with the limit that this client has, if that is another one.

    Raises:
        UsageError: a number that makes no sense, or a rule that limits nothing.
    """
    if type(tokens) is not int or not 1 <= tokens <= MOST_GRANTED:
        raise UsageError(f"tokens must be a whole number from 1 to {MOST_GRANTED:,}, not {tokens!r}")
    if not 0 < seconds <= LONGEST_GRANT_S:
        raise UsageError(f"a grant lasts up to {LONGEST_GRANT_S:,} seconds (30 days), not {seconds!r}")
    plan = plan_check(ruleset, client, rule, 0, overriding)
    if not plan.ops or not plan.ops[0].limit.capacity:
        raise UsageError(f"rule {rule!r} has no bucket to grant tokens on: it is unlimited, off or refuses everything")
    return plan


def looking(plan: Plan) -> list[Op]:
    """The operations of a plan that take nothing."""
    return [op._replace(spend=False) for op in plan.ops]
