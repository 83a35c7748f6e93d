"""What both limiters do around the one store call: everything but the call itself. Plain functions, no await."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from limen.core.decision import Decision, Source
from limen.core.events import Observer
from limen.engine.clock import Clock, SystemClock
from limen.engine.conclude import conclude, conclude_banned, conclude_one, no_limit, undecided
from limen.engine.local import DenyCache, LocalShares
from limen.engine.plan import Plan, find_rule, plain_rules, plan_check
from limen.errors import StoreError, UsageError
from limen.rules.key import identity_of_client
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet
from limen.stores.base import Op

__all__ = ["Deciding", "as_ruleset", "looking"]

_new = tuple.__new__


def as_ruleset(rules: Iterable[Rule] | RuleSet) -> RuleSet:
    """A snapshot of what was given."""
    return rules if isinstance(rules, RuleSet) else RuleSet(rules)


class Deciding:
    """The rules in force and everything that a process knows by itself.

    Args:
        ruleset: the rules to begin with.
        source: what decisions of the store are marked with.
        clock: for everything local.
        gateways: how many processes decide; each gets that part of a limit while the store is away.
        observer: is told of every decision.
    """

    def __init__(
        self, ruleset: RuleSet, source: Source, clock: Clock | None, gateways: int, observer: Observer | None
    ) -> None:
        if type(gateways) is not int or gateways < 1:
            raise UsageError(f"gateways must be a whole number from 1, not {gateways!r}")
        self._ruleset = ruleset
        self._plain = plain_rules(ruleset)
        self._source: Source = source
        self._now_us = (clock or SystemClock()).now_us
        self._observer = observer
        self._denied = DenyCache()
        self._shares = LocalShares(self._now_us, gateways)

    @property
    def ruleset(self) -> RuleSet:
        """The rules in force."""
        return self._ruleset

    def use_rules(self, rules: RuleSet | Iterable[Rule]) -> None:
        """Put other rules in force, as a whole and at once. Buckets keep what they hold, clamped to the new limits.

        Raises:
            RuleError: the rules do not go together; those in force stay.
        """
        self._ruleset = ruleset = as_ruleset(rules)
        self._plain = plain_rules(ruleset)
        self._denied.clear()

    def _planned(self, client: str, rule: str, cost: int) -> Plan:
        """`plan_check`, with a short cut for the common kind of rule."""
        plain = self._plain.get(rule)
        if plain is None or type(cost) is not int or cost < 0:
            return plan_check(self._ruleset, client, rule, cost)
        return _new(Plan, ((plain[0],), (_new(Op, ("client=" + client, rule, plain[1], cost, True)),)))

    def _at_once(self, plan: Plan, now_us: int) -> Decision | None:
        """The decision, when no store is needed for it."""
        ops = plan.ops
        if len(ops) == 1:
            return self._one_at_once(plan.rules[0], ops[0], now_us)
        if not ops:
            return no_limit()
        for index, op in enumerate(ops):
            if op.enforce and not op.limit.capacity:
                return conclude_banned(plan.rules[index])
        return self._refused_before(plan, now_us) if self._denied.entries else None

    def _one_at_once(self, rule: Rule, op: Op, now_us: int) -> Decision | None:
        """The same for one rule, without a detour."""
        if not op.enforce:
            return None
        limit = op.limit
        if not limit.capacity:
            return conclude_banned(rule)
        level = self._denied_level(op, now_us) if self._denied.entries else None
        return None if level is None else conclude_one(rule, limit, op.cost, level, "deny_cache")

    def _refused_just_now(self, client: str, rule: str, cost: int) -> Decision | None:
        """The refusal of a client that is over its limit, at the price of a dictionary: it may be asking very often."""
        plain = self._plain.get(rule)
        if plain is None or type(cost) is not int:
            return None
        found, limit = plain
        asked_us = self._now_us()
        level = self._denied.level(("client=" + client, rule), limit, cost * limit.token_ticks, asked_us)
        if level is None:
            return None
        decision = conclude_one(found, limit, cost, level, "deny_cache")
        if self._observer is not None:
            self._observer.on_decision(decision, self._now_us() - asked_us)
        return decision

    def _denied_level(self, op: Op, now_us: int) -> int | None:
        cost = op.cost * op.limit.token_ticks
        return self._denied.level((op.identity, op.rule), op.limit, cost, now_us) if op.enforce else None

    def _refused_before(self, plan: Plan, now_us: int) -> Decision | None:
        """The refusal by buckets that cannot have filled up since they refused."""
        rules, ops, levels = [], [], []
        for rule, op in zip(plan.rules, plan.ops, strict=True):
            level = self._denied_level(op, now_us)
            if level is not None:
                rules.append(rule)
                ops.append(op)
                levels.append(level)
        return conclude(Plan(rules, ops), levels, "deny_cache") if ops else None

    def _concluded(self, plan: Plan, levels: Sequence[int], asked_us: int) -> Decision:
        """The decision, from what the store found."""
        ops = plan.ops
        if len(ops) == 1 and ops[0].enforce:
            decision = conclude_one(plan.rules[0], ops[0].limit, ops[0].cost, levels[0], self._source)
        else:
            decision = conclude(plan, levels, self._source)
        if self._source == "store":
            self._shares.store_answered = True
            self._learn(ops, levels, decision.allowed, asked_us)
        return decision

    def _learn(self, ops: Sequence[Op], levels: Sequence[int], allowed: bool, asked_us: int) -> None:
        """Remember who was refused; forget what was known of buckets that were spent from since."""
        if not allowed:
            for op, level in zip(ops, levels, strict=True):
                if op.enforce and op.cost * op.limit.token_ticks > level:
                    self._denied.remember(op, level, asked_us)
        elif self._denied.entries:
            for op in ops:
                self._denied.entries.pop((op.identity, op.rule), None)

    def _without_store(self, plan: Plan, error: StoreError, now_us: int, *, spend: bool = True) -> Decision:
        """The decision, when the store did not give one: by the local share, or 503 for rules that must hold."""
        if self._observer is not None:
            self._observer.on_store_error(error.kind)
        for rule in plan.rules:
            if rule.on_failure == "closed" and rule.mode == "enforce":
                return undecided(rule)
        shared = self._shares.parts(plan.ops)
        levels = self._shares.take(shared if spend else [op._replace(cost=0) for op in shared], now_us)
        decision = conclude(Plan(plan.rules, shared), levels, "local_share", spend=spend, degraded=True)
        if decision.policy is None:
            return decision
        return decision._replace(limit=decision.policy.quota)

    def _buckets_of(self, client: str, rule_id: str | None) -> list[tuple[str, str | None]]:
        """The buckets of a client under one rule, or all that go by its name: identities and rules, None for every."""
        if rule_id is not None:
            return [(identity_of_client(client, find_rule(self._ruleset, rule_id).key_by), rule_id)]
        names = {rule.key_by for rule in self._ruleset.rules if len(rule.key_by) == 1} | {("client",)}
        return [(identity_of_client(client, key_by), None) for key_by in sorted(names)]

    def _forget(self, identity: str, rule_id: str | None) -> None:
        """Forget what is known locally of some buckets."""
        self._denied.forget(identity, rule_id)
        self._shares.forget(identity, rule_id)


def looking(plan: Plan) -> list[Op]:
    """The operations of a plan that take nothing."""
    return [op._replace(cost=0) for op in plan.ops]
