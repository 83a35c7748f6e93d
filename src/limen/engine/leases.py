"""Leases that this gateway holds: tokens that it borrowed for a client that asks often, and answers from.

    asked often ──► borrow ──► spend ──► a quarter is left, or little time ──► borrow anew, and so on
                                  │ refused, reset, other rules, asks no more
                                  ▼
                              give back

A lease belongs to one bucket; a request is answered from leases when every rule that applies has enough of it. What is
borrowed has been charged already, so nobody has to be told what was spent of it. The time of a lease is counted from
before it was asked for, and is looked at again right before each spending, so what has run out is never spent, however
long this process was asleep in between.

Plain functions, no await. Threads may share it. Whoever gets leases to ask about (`borrowing.py`) asks for each of them
`question`, and says how it went: `answered` or `failed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import urandom
from threading import Lock

from limen.core.decision import Decision
from limen.core.heavy_hitters import HeavyHitters
from limen.core.lease import LeaseTerms
from limen.core.limit import Limit
from limen.core.loans import Claim
from limen.engine.conclude import conclude, conclude_one
from limen.engine.debts import Recent
from limen.engine.deny_cache import DenyCache, Key
from limen.engine.fleet import Fleet
from limen.engine.lease import Lease
from limen.engine.plan import Plan
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet
from limen.stores.base import Borrow, Lent, Op
from limen.stores.fork import begin_anew_after_fork

__all__ = ["Leases"]

HOT = 10
"""So many requests in half a second, 20 a second, and it is worth borrowing."""
WINDOW_US = 500_000
COUNTED = 1024
MOST_HELD = 4096
LOOK_AGAIN_US = 20_000
HOLDER_BYTES = 8
FAR = 2**62


class Leases:
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
        self.held: dict[Key, Lease] = {}
        self.due_us = FAR
        """When a lease has to be looked at though nobody asks."""
        self.borrowed = self.spent = self.returned = 0
        """Tokens since the start."""
        self._now_us, self._fleet, self._recent, self._denied = now_us, fleet, recent, denied
        self._lends = False
        self._hitters = HeavyHitters[Key](COUNTED, WINDOW_US)
        self._number = 0
        self.holder = urandom(HOLDER_BYTES)
        self._lock = Lock()
        begin_anew_after_fork(self)

    def __len__(self) -> int:
        """On how many buckets there is a lease."""
        return len(self.held)

    @property
    def left(self) -> int:
        """Whole tokens that are held and not spent."""
        now_us = self._now_us()
        with self._lock:
            return sum(lease.left for lease in self.held.values() if now_us < lease.until_us)

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
            if not decision.allowed:
                asked += self._lost(ops)
            elif decision.source in ("store", "lease") and self._lendable(plan):
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
        rules = [rule for rule in ruleset.rules if rule.mode == "enforce" and isinstance(rule.limit, Limit)]
        lending = {rule.id: rule for rule in rules if rule.lease is not None and self._lends}
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

    def finish(self) -> Sequence[Lease]:
        """All leases: they are to be given back."""
        with self._lock:
            self._lends, self.terms = False, {}
            return self._give_back(list(self.held))

    def doubt(self, concerned: Callable[[str, str], bool]) -> None:
        """Spend nothing of what a server may have forgotten to have lent."""
        with self._lock:
            for lease in self.held.values():
                if concerned(lease.op.identity, lease.op.colocate):
                    lease.left = 0

    def question(self, lease: Lease) -> Borrow | None:
        """What to ask the store about a lease; None when there is nothing to ask any more."""
        with self._lock:
            self._number += 1
            now_us = self._now_us()
            wish = 0 if lease.gone else lease.wish(self._fleet.size, now_us)
            left, back = lease.put_down(now_us, wish)
            if lease.gone and not back:
                return None
            most = lease.terms.most(lease.limit.capacity)
            claim = Claim(self.holder, self._number, left, back, most, lease.terms.ttl_us)
            return Borrow(lease.op._replace(cost=max(0, wish - left)), claim)

    def answered(self, lease: Lease, borrow: Borrow, lent: Lent) -> bool:
        """The store has answered; whether it has to be asked once more, for the lease is not wanted any more."""
        op, limit, claim = borrow.op, lease.limit, borrow.claim
        with self._lock:
            again = lease.take_up(borrow, lent, self._now_us())
            self.due_us = min(self.due_us, lease.due_us)
            self.borrowed += lent.tokens
            self.returned += claim.back
        if lent.tokens:
            before = limit.raised(lent.seen, lent.tokens)
            self._recent.admitted(op._replace(limit=limit, cost=lent.tokens), before, lease.asked_us)
        if claim.back:
            self._denied.drop((op.identity, op.rule))  # there is more in it than was known
        return again

    def failed(self, lease: Lease) -> None:
        """The store did not answer: what it may have lent runs out unspent."""
        with self._lock:
            lease.fail(self._now_us())
            self.due_us = min(self.due_us, lease.due_us)

    def begin_after_fork(self) -> None:
        """In a child process: what is held is the parent's to spend."""
        self._lock = Lock()
        self.held = {}
        self._hitters.clear()
        self.holder = urandom(HOLDER_BYTES)

    def _lendable(self, plan: Plan) -> bool:
        """Whether a request under these rules could be answered from leases."""
        return all(op.rule in self.terms and op.enforce and op.cost and not _anonymous(op) for op in plan.ops)

    def _lease_for(self, op: Op, now_us: int) -> Lease | None:
        """The lease on a bucket; a new and empty one when it is asked for often."""
        key = (op.identity, op.rule)
        lease = self.held.get(key)
        if lease is not None:
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
        keys = [(op.identity, op.rule) for op in ops]
        for key in keys:
            self._hitters.drop(key)
        return self._give_back([key for key in keys if key in self.held])

    def _cooled(self, now_us: int) -> list[Lease]:
        asked = self._give_back([key for key, lease in self.held.items() if now_us >= lease.due_us])
        next_us = min((lease.due_us for lease in self.held.values()), default=FAR)
        self.due_us = max(next_us, now_us + LOOK_AGAIN_US) if self.held else FAR
        return asked

    def _give_back(self, keys: Iterable[Key]) -> list[Lease]:
        """Hold these no more. One that is being asked about is given back when its answer is there."""
        leases = [self.held.pop(key) for key in keys]
        return [lease for lease in leases if lease.give_up()]


def _anonymous(op: Op) -> bool:
    """Whether nobody is known to ask, so that the address stands for the client."""
    return op.identity.startswith(("ip=", "+ip="))
