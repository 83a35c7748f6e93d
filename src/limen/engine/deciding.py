"""What both limiters do around the one store call: everything but the call itself. Plain functions, no await."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from limen.core.algorithm import Seen
from limen.core.decision import Decision, Source
from limen.core.events import Observer
from limen.core.limit import Limit
from limen.engine.clock import Clock, SystemClock, epoch_clock
from limen.engine.conclude import conclude, conclude_any, conclude_banned, conclude_one, no_limit, undecided
from limen.engine.debts import Debts
from limen.engine.deny_cache import DenyCache
from limen.engine.drill import Drill
from limen.engine.explain import Explanation, explain
from limen.engine.fleet import Fleet
from limen.engine.lease import Lease
from limen.engine.leases import Leases
from limen.engine.local_shares import LocalShares
from limen.engine.plan import Plan, find_rule, without_candidates
from limen.engine.planning import Planning, looking
from limen.engine.recent import Recent
from limen.engine.standing import Applied
from limen.errors import StoreError, UsageError
from limen.rules.carrying import carried
from limen.rules.key import identity_of_client
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Standing
from limen.stores.base import Op

__all__ = ["Deciding", "Question", "as_ruleset", "looking", "payment_us", "with_cost"]


Question = tuple[str, str] | tuple[str, str, int]
"""Client, rule, and the cost if it is not 1."""

SETTLING = "settling"
PART_FOR_PAYMENT = 0.6
MISSES = ("timeout", "overload")
"""A server that answers others: this is no outage."""

log = logging.getLogger("limen")


def as_ruleset(rules: Iterable[Rule] | RuleSet) -> RuleSet:
    """A snapshot of what was given."""
    return rules if isinstance(rules, RuleSet) else RuleSet(rules)


class Deciding(Planning):
    """The rules in force and everything that a process knows by itself.

    Args:
        ruleset: the rules to begin with.
        source: what decisions of the store are marked with.
        clock: for everything local.
        gateways: how many processes decide at least; each gets its part of a limit while the store is away.
        observer: is told of every decision.
    """

    def __init__(
        self, ruleset: RuleSet, source: Source, clock: Clock | None, gateways: int, observer: Observer | None
    ) -> None:
        clock = clock or SystemClock()
        self._now_us = clock.now_us
        self._epoch_us = epoch_clock(clock)
        self.fleet = Fleet(gateways, self._now_us)
        """How many gateways share every limit."""
        if source == "memory" and gateways > 1:
            log.warning("memory:// is known to one process: each of %d gateways allows the whole limit", gateways)
        self._ruleset = ruleset
        self._plain = ruleset.plain
        self._applied = None
        self._standing = Standing()
        self._source: Source = source
        self._observer = observer
        self._denied = DenyCache()
        self._shares = LocalShares(self._now_us, self.fleet)
        self._recent = Recent()
        """Stays empty where the store is in this process."""
        self._debts = Debts(self._recent, self.fleet, self._now_us)
        self._drill = Drill(self._now_us)
        self._leases = Leases(self._now_us, self.fleet, self._recent, self._denied)
        self._payment_us = 0
        self._can_settle = False
        """Whether the store can be charged afterwards."""

    @property
    def ruleset(self) -> RuleSet:
        """The rules in force."""
        return self._ruleset

    def use_rules(self, rules: RuleSet | Iterable[Rule]) -> None:
        """Put other rules in force, as a whole and at once. Buckets keep what they hold, clamped to the new limits,
        where a rule says nothing else (`carry_over`).

        Raises:
            RuleError: the rules do not go together; those in force stay.
        """
        ruleset = as_ruleset(rules)
        if not ruleset.versions:  # those of a database know by themselves what was before them
            ruleset = carried(self._ruleset, ruleset, self._epoch_us())
        self._ruleset = ruleset
        self._plain = ruleset.plain
        self._denied.clear()
        self._debts.use_rules(ruleset, self._is_in_force)
        self._borrow(self._leases.use_rules(ruleset))

    @property
    def standing(self) -> Standing:
        """What operators have said of single clients."""
        return self._standing

    def use_standing(self, standing: Standing) -> None:
        """Put other blocks, flags and limits of single clients in force, as a whole and at once. Buckets keep what they
        hold, clamped to the limits that hold from now on."""
        before, self._standing = self._standing, standing
        self._applied = Applied(standing, self._epoch_us, self._applied) if standing else None
        tables = before.overrides, standing.overrides
        changed = {rule for of in tables for rule in of if tables[0].get(rule) is not tables[1].get(rule)}
        if changed:
            self._denied.clear()
            self._borrow(self._leases.forget_rules(changed))

    @property
    def drilling(self) -> float:
        """The share of clients, in per cent, for whom an outage of the store is rehearsed now."""
        return self._drill.percent

    @property
    def deny_cache_entries(self) -> int:
        """Of how many buckets it is remembered here that they refused."""
        return len(self._denied)

    @property
    def debts(self) -> Debts:
        """What is owed to the store since it was away."""
        return self._debts

    @property
    def leases(self) -> Leases:
        """What this gateway has borrowed."""
        return self._leases

    def drill(self, percent: float, seconds: float) -> None:
        """Rehearse an outage: decide about so many clients as if the store were away, which it is not.

        Args:
            percent: of the clients, the same ones all the time; 0 ends it.
            seconds: how long, an hour at most.

        Raises:
            UsageError: a number that makes no sense, or a store in this process, which is never away.
        """
        if self._source == "memory":
            raise UsageError("memory:// is in this process and never away: there is no outage to rehearse")
        self._drill.begin(percent, seconds)

    def _store_returned(self, concerned: Callable[[str, str], bool]) -> None:
        """A server decides again that may have forgotten what it said last: it will be reminded."""
        self._leases.doubt(concerned)
        self._debts.returned(concerned)
        for op, left, at_us in self._recent.concerning(concerned):
            if self._is_in_force(op):
                self._debts.lower(op, left, at_us)

    def _is_in_force(self, op: Op) -> bool:
        """Whether the limit of an operation is still that of its rule, or of some client under it."""
        rule = self._ruleset.by_id.get(op.rule)
        if rule is None or rule.limit == op.limit:
            return rule is not None
        applied = self._applied
        return applied is not None and applied.may_be(op.rule, op.limit)

    def _borrow(self, asked: Sequence[Lease]) -> None:
        """Ask the store about leases."""
        raise NotImplementedError

    def _leased(self, plan: Plan, now_us: int) -> Decision | None:
        """The decision out of leases, if they are enough, unless an outage is rehearsed with this client."""
        if self._drill.running:
            try:
                self._drill.check(plan.ops, now_us)
            except StoreError:
                return None
        return self._leases.spend(plan)

    def _at_once(self, plan: Plan, now_us: int) -> Decision | None:
        """The decision, when no store is needed for it."""
        ops = plan.ops
        if len(ops) == 1:
            return self._one_at_once(plan.rules[0], ops[0], now_us)
        if not ops:
            return plan.decision or no_limit()
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
        seen = self._seen_by_denied(op, now_us) if self._denied.entries else None
        return None if seen is None else conclude_any(rule, limit, op.cost, seen, "deny_cache")

    def _refused_just_now(self, client: str, rule: str, cost: int) -> Decision | None:
        """The refusal of a client that is over its limit, at the price of a dictionary: it may be asking very often.

        What `DenyCache.seen` would say of a token bucket, without a detour; None when it is not as plain as that.
        """
        plain, entry = self._plain.get(rule), self._denied.entries.get(("client=" + client, rule))
        if plain is None or entry is None or type(cost) is not int:
            return None
        applied = self._applied
        if applied is not None and applied.knows(client):
            return None
        found, limit = plain
        asked_us = self._now_us()
        if asked_us >= entry.until_us or entry.limit is not limit:
            return None
        level = entry.seen + (asked_us - entry.at_us) * limit.ticks_per_us
        if level >= cost * limit.token_ticks or level > limit.full_ticks:
            return None
        entry.used = True
        decision = conclude_one(found, limit, cost, level, "deny_cache")
        if self._observer is not None:
            self._observer.on_decision(decision, self._now_us() - asked_us)
        return decision

    def _seen_by_denied(self, op: Op, now_us: int) -> Seen | None:
        return self._denied.seen((op.identity, op.rule), op.limit, op.cost, now_us) if op.enforce else None

    def _refused_before(self, plan: Plan, now_us: int) -> Decision | None:
        """The refusal by buckets that cannot have filled up since they refused."""
        rules, ops, found = [], [], []
        for rule, op in zip(plan.rules, plan.ops, strict=True):
            seen = self._seen_by_denied(op, now_us)
            if seen is not None:
                rules.append(rule)
                ops.append(op)
                found.append(seen)
        return conclude(Plan(rules, ops), found, "deny_cache") if ops else None

    def _goes_to_store(self, ops: Sequence[Op], now_us: int) -> None:
        """These are about to be asked for: others of clients that were just refused are held to what they leave."""
        for op in ops:
            if op.enforce:
                self._denied.asks((op.identity, op.rule), op.limit, op.cost, now_us)

    def _concluded(self, plan: Plan, seen: Sequence[Seen], asked_us: int, atomic: bool = True) -> Decision:
        """The decision, from what the store found."""
        ops = plan.ops
        op = ops[0]
        limit = op.limit
        if len(ops) == 1 and op.enforce and type(limit) is Limit:
            decision = conclude_one(plan.rules[0], limit, op.cost, seen[0], self._source)
            if decision[0] and asked_us < self._recent.turns_us and not self._denied.entries:
                # What most requests come to; `_admitted` says the same in more words.
                self._shares.answered_us = asked_us
                self._recent.admitted[op[0], op[1]] = op, seen[0], asked_us
                return decision
        else:
            decision = conclude(plan, seen, self._source, atomic=atomic)
        if self._source == "store":
            self._shares.answered_us = asked_us
            if decision.allowed:
                self._admitted(ops, seen, asked_us)
            elif atomic:  # else others may have held for a moment what they gave back
                self._refused(plan, seen, asked_us)
        return decision

    def _admitted(self, ops: Sequence[Op], found: Sequence[Seen], asked_us: int) -> None:
        """Remember for a while what the store said, for it may forget it."""
        recent = self._recent
        if asked_us >= recent.turns_us:
            recent.turn(asked_us)
        for op, seen in zip(ops, found, strict=True):
            if op.enforce or (not op.beside and op.limit.allows(seen, op.cost)):
                recent.admitted[op.identity, op.rule] = op, seen, asked_us
        if self._denied.entries:
            self._admitted_again(ops, found, asked_us)

    def _admitted_again(self, ops: Sequence[Op], found: Sequence[Seen], asked_us: int) -> None:
        """Some may have been refused before."""
        for op, seen in zip(ops, found, strict=True):
            if op.enforce:
                self._denied.spent(op, op.limit.after(seen, op.cost), asked_us)

    def _refused(self, plan: Plan, found: Sequence[Seen], asked_us: int) -> None:
        """Remember who was refused. Those that would not have refused were not charged, whatever was thought here.

        Nobody is remembered under a rule with a candidate: that may allow what the limit beside it refuses.
        """
        for rule, op, seen in zip(plan.rules, plan.ops, found, strict=True):
            if op.enforce and rule.candidate is None and not op.limit.allows(seen, op.cost):
                self._denied.remember(op, seen, asked_us)
            elif self._denied.entries:
                self._denied.drop((op.identity, op.rule))

    def _in_time(self, asked_us: int) -> None:
        """
        Raises:
            StoreError: paying what is owed took too long to ask for anything else.
        """
        if self._now_us() - asked_us > self._payment_us:
            raise StoreError("the store was told what it is owed, and that took long", SETTLING)

    def _settled(self, ops: Sequence[Op]) -> None:
        """
        Raises:
            StoreError: other gateways may not have told the store yet what they admitted meanwhile.
        """
        if self._debts.settling(ops):
            raise StoreError("the gateways tell the store what they admitted without it", SETTLING)

    def _without_store(self, plan: Plan, error: StoreError, now_us: int, *, spend: bool = True) -> Decision:
        """The decision, when the store did not give one: by the local share, or 503 for rules that must hold."""
        if self._observer is not None and error.kind != SETTLING:
            self._observer.on_store_error(error.kind, error.shard)
        plan = without_candidates(plan)
        for rule in plan.rules:
            if rule.on_failure == "closed" and rule.mode == "enforce":
                return undecided(rule)
        shared = self._shares.parts(plan.ops)
        asked = shared if spend else [op._replace(spend=False) for op in shared]
        shard = None if error.kind == SETTLING else error.shard or error.kind
        levels = self._shares.take(asked, now_us, shard)
        decision = conclude(Plan(plan.rules, shared), levels, "local_share", spend=spend, degraded=True)
        if spend and decision.allowed and self._can_settle:
            for op, part, level in zip(plan.ops, shared, levels, strict=True):
                if op.cost and part.limit.allows(level, op.cost):
                    self._owes(op, cast("Limit", part.limit), error.kind)
        if self._debts.entries and error.kind not in (SETTLING, *MISSES):
            self._debts.unasked(plan.ops, now_us)
        if decision.policy is None:
            return decision
        return decision._replace(limit=decision.policy.quota)

    def _owes(self, op: Op, share: Limit, kind: str) -> None:
        """The local share has admitted it."""
        if kind in MISSES:
            self._debts.missed(op)
        else:
            self._debts.spent(op, share, self._shares.count)

    def _explained(self, request: Request, plan: Plan, seen: Sequence[Seen], now_us: int) -> Explanation:
        """Why a request would be decided as it would, from what the store has seen."""
        decision = self._at_once(plan, now_us) or conclude(plan, seen, self._source, spend=False)
        return self._told(request, plan, seen, decision, self._source == "store")

    def _explained_without_store(self, request: Request, plan: Plan, error: StoreError, now_us: int) -> Explanation:
        """The same, from this gateway's shares; without their levels when a rule is closed."""
        plan = without_candidates(plan)
        decision = self._at_once(plan, now_us) or self._without_store(plan, error, now_us, spend=False)
        parts = plan._replace(ops=[op._replace(spend=False) for op in self._shares.parts(plan.ops)])
        seen = () if decision.reason == "store_unavailable" else self._shares.take(parts.ops, now_us, None)
        return self._told(request, parts, seen, decision, True)

    def _told(
        self, request: Request, plan: Plan, seen: Sequence[Seen], decision: Decision, shared: bool
    ) -> Explanation:
        """The explanation, when it is known what the rules alone would decide."""
        said, overrides, applied = None, {}, self._applied
        if applied is not None:
            said = applied.said_of(request)
            decision = applied.request(request) or decision
            rules = [rule for rule in self._ruleset.rules if rule.id in applied.standing.overrides]
            found = {rule.id: applied.override(rule, request) for rule in rules}
            overrides = {rule: each for rule, each in found.items() if each is not None}
        stories = explain(self._ruleset, request, plan, seen, decision.allowed and said is None, overrides)
        return Explanation(request, decision, stories, self._ruleset, self.fleet.size, shared, said)

    def _buckets_of(self, client: str, rule_id: str | None) -> list[tuple[str, str | None, str]]:
        """The buckets of a client under one rule, or all that go by its name: identities, rules or None, labels."""
        if rule_id is not None:
            rule = find_rule(self._ruleset, rule_id)
            return [(identity_of_client(client, rule.key_by), rule_id, rule.colocate)]
        names = {(rule.key_by, rule.colocate) for rule in self._ruleset.rules if len(rule.key_by) == 1}
        names.add((("client",), ""))
        return [(identity_of_client(client, key_by), None, colocate) for key_by, colocate in sorted(names)]

    def _forget(self, identity: str, rule_id: str | None) -> None:
        """Forget what is known locally of some buckets."""
        self._denied.forget(identity, rule_id, self._now_us())
        self._shares.forget(identity, rule_id)
        self._debts.forget(identity, rule_id)
        self._recent.forget(identity, rule_id)
        self._borrow(self._leases.forget(identity, rule_id))


def payment_us(deadline_ms: float) -> int:
    """How long a decision may spend on what is owed, so that it can wait for an answer of its own too."""
    return round(deadline_ms * 1000 * PART_FOR_PAYMENT)


def with_cost(question: Question) -> tuple[str, str, int]:
    """A question with its cost."""
    return question if len(question) == 3 else (*question, 1)
