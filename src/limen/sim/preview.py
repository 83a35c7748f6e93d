"""A change of rules, tried on requests of the past: each is decided by the rules before it and by those after it.

Requests may be a sample. One of a hundred clients with all its requests says exactly what a hundred of its kind get
under rules that count each client for itself: such a request counts for a hundred, and its bucket is its own. A bucket
that clients share (`key_by: []`, or by plan or host) was emptied by all of them, of whom the sample has a hundredth: so
each of its requests takes a hundred tokens there, or as many as are left, and only what was left has passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from limen.core.algorithm import Seen
from limen.core.decision import Decision
from limen.engine.deciding import looking
from limen.engine.plan import Plan, plan_check, plan_request
from limen.engine.standing import Applied
from limen.errors import UsageError
from limen.rules.effect import Affected, Effect
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Standing
from limen.sim.player import Player
from limen.stores.base import Op

__all__ = ["Comparison", "Traced", "compare"]

MOST_SHOWN = 10
NO_PLAN = "-"
NOBODY = "-"
SHARED = frozenset({"plan", "host"})
"""What many clients have in common. Buckets by an address, a segment of the path or a header belong to few."""


class Traced(NamedTuple):
    """A request of the past."""

    at_us: int
    """Microseconds since 1970."""
    request: Request
    """A check by name has the client in it, and nothing else."""
    rule: str | None = None
    """The rule that was asked by its name, if one was."""
    cost: int | None = None
    """What such a check spends."""
    weight: float = 1.0
    """How many requests it stands for, at least 1."""
    times: int = 1
    """How often this client asked that at this moment."""


def compare(before: RuleSet, after: RuleSet, trace: Iterable[Traced], standing: Standing | None = None) -> Effect:
    """What would have become of the requests, which are in the order of time.

    Args:
        before, after: the rules.
        trace: the requests.
        standing: limits that some clients have in the place of those of the rules, before and after.
    """
    comparison = Comparison(before, after, standing)
    for traced in trace:
        comparison.add(traced)
    return comparison.effect()


class Comparison:
    """The same, request by request.

    Args:
        before, after, standing: as with `compare`.
    """

    def __init__(self, before: RuleSet, after: RuleSet, standing: Standing | None = None) -> None:
        self._before, self._after = _Side(before, standing), _Side(after, standing)
        self._requests = self._denied_before = self._denied_after = self._newly_allowed = 0.0
        self._clients: set[str] = set()
        self._denied: defaultdict[tuple[str, str | None], float] = defaultdict(float)
        """Newly denied requests by client and plan."""
        self._rules: defaultdict[str, float] = defaultdict(float)
        self._covered: defaultdict[str, float] = defaultdict(float)
        self._first_us: int | None = None
        self._since_us: int | None = None
        self._until_us = 0

    def add(self, traced: Traced) -> None:
        """One more request."""
        at_us, request, weight = traced.at_us, traced.request, traced.weight * traced.times
        applied = self._before.applying(traced), self._after.applying(traced)
        was, _ = self._before.denied(traced, applied[0])
        is_, rule = self._after.denied(traced, applied[1])
        who = request.client or request.user or request.ip or NOBODY
        self._requests += weight
        self._denied_before += was
        self._denied_after += is_
        self._clients.add(who)
        self._since_us = at_us if self._since_us is None else self._since_us
        self._until_us = max(self._until_us, at_us)
        for rule_id in applied[1]:
            self._covered[rule_id] += weight
        for rule_id in applied[0]:
            if rule_id not in applied[1]:
                self._covered[rule_id] += weight
        if is_ > was:
            self._first_us = at_us if self._first_us is None else self._first_us
            self._denied[who, request.plan] += is_ - was
            self._rules[rule or NOBODY] += is_ - was
        else:
            self._newly_allowed += was - is_

    def effect(self) -> Effect:
        """What has become of those so far."""
        plans: defaultdict[str, float] = defaultdict(float)
        for (_, plan), denied in self._denied.items():
            plans[plan or NO_PLAN] += denied
        most = sorted(self._denied.items(), key=lambda item: (-item[1], item[0][0]))[:MOST_SHOWN]
        return Effect(
            requests=round(self._requests),
            clients=len(self._clients),
            denied_before=round(self._denied_before),
            denied_after=round(self._denied_after),
            newly_denied=round(sum(self._denied.values())),
            newly_allowed=round(self._newly_allowed),
            clients_newly_denied=len({who for who, _ in self._denied}),
            plans=_most_first(plans),
            rules=_most_first(self._rules),
            first_at=_seconds(self._first_us),
            most=tuple(Affected(who, plan, round(denied)) for (who, plan), denied in most),
            since=_seconds(self._since_us),
            until=None if self._since_us is None else _seconds(self._until_us),
            covered=_most_first(self._covered),
        )


class _Side:
    """The rules on one side of the change."""

    def __init__(self, ruleset: RuleSet, standing: Standing | None) -> None:
        self._ruleset = ruleset
        self._player = Player(ruleset, standing=standing)
        self._applied = Applied(standing or Standing(), self._player.clock.now_us)
        self._shared = {rule.id for rule in ruleset.rules if SHARED.issuperset(rule.key_by)}

    def denied(self, traced: Traced, applying: Sequence[str]) -> tuple[float, str | None]:
        """How many of the requests that this one stands for are denied, and by which rule, when these apply."""
        if traced.rule is not None and not applying:
            return 0.0, None
        scaled = traced.weight > 1 and not self._shared.isdisjoint(applying)
        if traced.times > 1 or scaled:
            return self._denied_of_many(traced)
        decision = self._decision(traced)
        return (0.0, None) if decision is None or decision.allowed else (traced.weight, decision.rule)

    def applying(self, traced: Traced) -> list[str]:
        """The ids of the rules that apply to it."""
        if traced.rule is not None:
            return [traced.rule] if traced.rule in self._ruleset.by_id else []
        return self._player.ids_for(traced.request)

    def _decision(self, traced: Traced) -> Decision | None:
        if traced.rule is None:
            return self._player.play(traced.at_us, traced.request)
        try:
            return self._player.check(traced.at_us, traced.request.client or NOBODY, traced.rule, _cost(traced))
        except UsageError:  # it cannot be asked like this any more, so it denies nobody
            return None

    def _denied_of_many(self, traced: Traced) -> tuple[float, str | None]:
        """Of many, as many pass as all buckets have tokens for."""
        clock, limiter, weight = self._player.clock, self._player.limiter, traced.weight
        clock.us = max(clock.us, traced.at_us)
        plan = self._plan(traced)
        plan = plan._replace(ops=[op for op in plan.ops if not op.beside])
        passing, deciding = traced.times * weight, None
        for op, seen in zip(plan.ops, limiter.store.take(looking(plan)), strict=True):
            room = self._room(op, seen, weight) if op.enforce else passing
            if room < passing:
                passing, deciding = room, op.rule
        own = int(passing / weight)
        limiter.store.take([self._taking(op, passing if op.rule in self._shared else own) for op in plan.ops])
        return traced.times * weight - passing, deciding

    def _plan(self, traced: Traced) -> Plan:
        if traced.rule is None:
            return plan_request(self._ruleset, traced.request, self._applied.rule)
        try:
            client, overriding = traced.request.client or NOBODY, self._applied.rule_for_name
            return plan_check(self._ruleset, client, traced.rule, _cost(traced), overriding)
        except UsageError:
            return Plan((), ())

    def _room(self, op: Op, seen: Seen, weight: float) -> float:
        """How many of these requests one bucket has tokens for."""
        if not op.limit.allows(seen, op.cost):
            return 0.0
        if not op.cost:
            return inf
        return float(op.limit.remaining(seen) // op.cost) * (1.0 if op.rule in self._shared else weight)

    @staticmethod
    def _taking(op: Op, requests: float) -> Op:
        return op._replace(cost=int(op.cost * requests))


def _cost(traced: Traced) -> int:
    return 1 if traced.cost is None else traced.cost


def _most_first(counted: Mapping[str, float]) -> dict[str, int]:
    return {name: round(count) for name, count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))}


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1_000_000
