"""Leases that this gateway holds: tokens that it borrowed for a client that asks often, and answers from.

    asked often ──► borrow ──► spend ──► a quarter is left, or little time ──► borrow anew, and so on
                                  │ refused, reset, other rules, asks no more
                                  ▼
                              give back

A lease belongs to one bucket; a request is answered from leases when every rule that applies has enough of it. What is
borrowed has been charged already, so nobody has to be told what was spent of it. The time of a lease is counted from
before it was asked for, and is looked at again right before each spending, so what has run out is never spent, however
long this process was asleep in between.

Plain functions, no await. Threads may share it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from limen.core.decision import Decision
from limen.core.heavy_hitters import HeavyHitters
from limen.core.lease import LeaseTerms
from limen.core.limit import Limit
from limen.engine.conclude import conclude, conclude_one
from limen.engine.deny_cache import DenyCache, Key
from limen.engine.fleet import Fleet
from limen.engine.lease import Lease
from limen.engine.lease_book import FAR, LeaseBook
from limen.engine.plan import Plan
from limen.engine.recent import Recent
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet
from limen.stores.base import Op

__all__ = ["Leases"]

HOT = 10
"""So many requests in half a second, 20 a second, and it is worth borrowing."""
WINDOW_US = 500_000
COUNTED = 1024
MOST_HELD = 4096
LOOK_AGAIN_US = 20_000
BACK_AT_ONCE = 8
"""So many are given back at a time: with code that blocks, somebody waits for it."""
BY_THE_STORE = ("store", "deny_cache")
"""Sources of refusals that say how much is in a bucket."""
CHARGED = ("store", "lease")
"""Sources of what the store was charged with."""


class Leases(LeaseBook):
    """What is held, and for whom it would be worth it.

    Args:
        now_us: the local clock.
        fleet: how many gateways there are.
        recent: is told what was borrowed: the store has charged it.
        denied: forgets a refusal when something was given back to that bucket.
    """

    def __init__(self, now_us: Callable[[], int], fleet: Fleet, recent: Recent, denied: DenyCache) -> None:
        self.terms: dict[str, LeaseTerms] = {}
        """Rules that lend, by their ids. While there are none, nobody has to ask anything else here."""
        self._lends = False
        self._hitters = HeavyHitters[Key](COUNTED, WINDOW_US)
        super().__init__(now_us, fleet, recent, denied)

    def begin(self, ruleset: RuleSet) -> None:
        """There is a store that lends."""
        self._lends = True
        self.use_rules(ruleset)

    def spend(self, plan: Plan) -> Decision | None:
        """Allow a request out of leases; None when one of its rules has none, or too little of it."""
        ops = plan.ops
        if len(ops) == 1:
            return self._spend_one(plan.rules[0], ops[0])
        with self._lock:
            leases = [lease for op in ops if (lease := self.held.get((op.identity, op.rule))) is not None]
            if len(leases) != len(ops) or not ops:
                return None
            now_us = self._now_us()
            for op, lease in zip(ops, leases, strict=True):
                if not lease.covers(op, now_us):
                    return None
            levels = [lease.spend(op.cost) for op, lease in zip(ops, leases, strict=True)]
            self.spent += sum(op.cost for op in ops)
        return conclude(plan, levels, "lease")

    def _spend_one(self, rule: Rule, op: Op) -> Decision | None:
        """The same for one rule, without a detour."""
        lease = self.held.get((op.identity, op.rule))
        if lease is None:
            return None
        with self._lock:
            if not lease.covers(op, self._now_us()):
                return None
            level = lease.spend(op.cost)
            self.spent += op.cost
        return conclude_one(rule, lease.limit, op.cost, level, "lease")

    def noted(self, plan: Plan, decision: Decision) -> Sequence[Lease]:
        """Note how a request was decided; the leases that the store is to be asked about now."""
        now_us, ops = self._now_us(), plan.ops
        if decision.source == "lease" and len(ops) == 1 and now_us < self.due_us:
            lease = self.held.get((ops[0].identity, ops[0].rule))
            if lease is not None and not lease.wants(now_us):
                lease.used += ops[0].cost
                return ()
        with self._lock:
            asked = self._cooled(now_us) if now_us >= self.due_us else []
            if not decision.allowed and decision.source in BY_THE_STORE:
                asked += self._lost(ops)
            elif decision.allowed and decision.source in CHARGED and self._lendable(plan):
                for op in ops:
                    lease = self._lease_for(op, now_us)
                    if lease is not None and lease.wants(now_us):
                        lease.asking = True
                        asked.append(lease)
            return asked

    def cooled(self) -> Sequence[Lease]:
        """Leases to give back because their clients ask no more."""
        now_us = self._now_us()
        if now_us < self.due_us:
            return ()
        with self._lock:
            return self._cooled(now_us)

    def use_rules(self, ruleset: RuleSet) -> Sequence[Lease]:
        """Put other rules in force; the leases to give back, of rules that are others now."""
        lending = ruleset.lending if self._lends else {}
        with self._lock:
            self.terms = {rule.id: rule.lease for rule in lending.values() if rule.lease is not None}
            changed = []
            for key, lease in self.held.items():
                rule = lending.get(key[1])
                if rule is None or (rule.limit, rule.lease, rule.colocate) != lease.made_under:
                    changed.append(key)
                elif isinstance(rule.limit, Limit):
                    lease.limit = rule.limit
            return self._give_back(changed)

    def forget(self, identity: str, rule: str | None) -> Sequence[Lease]:
        """The leases on one bucket, or on all of an identity: they are to be given back."""
        with self._lock:
            return self._give_back([key for key in self.held if key[0] == identity and rule in (None, key[1])])

    def forget_rules(self, rules: Collection[str]) -> Sequence[Lease]:
        """The leases under some rules, whose limits may be others now: they are to be given back."""
        with self._lock:
            return self._give_back([key for key in self.held if key[1] in rules])

    def finish(self) -> Sequence[Lease]:
        """All leases: they are to be given back."""
        with self._lock:
            self._lends, self.terms = False, {}
            return self._give_back(list(self.held))

    def begin_after_fork(self) -> None:
        """In a child process: others ask there."""
        super().begin_after_fork()
        self._hitters.clear()

    def _lendable(self, plan: Plan) -> bool:
        """Whether a request under these rules could be answered from leases."""
        return all(op.rule in self.terms and op.enforce and op.cost and not _anonymous(op) for op in plan.ops)

    def _lease_for(self, op: Op, now_us: int) -> Lease | None:
        """The lease on a bucket; a new and empty one when it is asked for often."""
        key = (op.identity, op.rule)
        lease = self.held.get(key)
        if lease is not None:
            if lease.limit is not op.limit:
                return None  # the limit of this client is another one now: it is given back when it has cooled
            lease.used += op.cost
            return lease
        count = self._hitters.add(key, now_us)
        if count < HOT or len(self.held) >= MOST_HELD:
            return None
        lease = Lease(op, self.terms[op.rule], count, self._hitters.began_us)
        if not lease.wish(self._fleet.size, now_us):
            return None
        self.held[key] = lease
        return lease

    def _lost(self, ops: Iterable[Op]) -> list[Lease]:
        """Somebody was refused: it is over its limit, and borrows nothing."""
        keys = [(op.identity, op.rule) for op in ops if op.rule in self.terms]
        for key in keys:
            self._hitters.drop(key)
        return self._give_back([key for key in keys if key in self.held])

    def _cooled(self, now_us: int) -> list[Lease]:
        due = [key for key, lease in self.held.items() if now_us >= lease.due_us]
        asked = self._give_back(due[:BACK_AT_ONCE])
        if len(due) <= BACK_AT_ONCE:
            next_us = min((lease.due_us for lease in self.held.values()), default=FAR)
            self.due_us = max(next_us, now_us + LOOK_AGAIN_US) if self.held else FAR
        return asked


def _anonymous(op: Op) -> bool:
    """Whether nobody is known to ask, so that the address stands for the client."""
    return op.identity.startswith(("ip=", "+ip="))
