"""What this gateway owes the store: tokens that it admitted without it, and levels that the store may have forgotten.

    admitted by the local share ──► spent ──(the store answers again)──► charged once, under a name
    admitted by the store       ──► recent ──(it may have forgotten)───► lowered to what was left then

A charge is what `core.share` says and carries a name, so that one whose answer was lost is repeated
without being made twice. Lowering needs no name: a bucket that held X tokens at some moment holds at most X and what
has grown since, whoever says so and however often. So a failover that lost the last seconds is mended by those who
admitted something in them, exactly, and one that lost nothing is left as it is.

Both are paid before the next question about the same bucket, and bit by bit for buckets that nobody asks about.

Gateways notice the return of a server one after another. The first would find in the bucket what the others have spent
already, and give it away before they say so. So for a moment, `GRACE_US` from when a bucket could not be asked for last
or its server returned, a gateway that admitted something alone pays what it owes and goes on to decide by its share.

Plain functions, no await. Threads may share them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from os import urandom
from threading import Lock

from limen.core.algorithm import Seen
from limen.core.concurrency import SlotLimit
from limen.core.limit import Limit
from limen.engine.debt import Debt
from limen.engine.deny_cache import Key
from limen.engine.fleet import Fleet
from limen.engine.recent import Recent
from limen.rules.ruleset import RuleSet
from limen.stores.base import Charge, Op
from limen.stores.fork import begin_anew_after_fork

__all__ = ["Debts"]

GRACE_US = 1_000_000
"""Longer than the first to return is ahead of the last, when all can be reached again."""
PAUSE_US = 100_000
"""How often it pays for each bucket, meanwhile and when there was too little in it: from the first moment on."""
NAME_BYTES = 16
NAMED_US = 540_000_000
"""How long a charge is repeated: a store knows for ten minutes which ones it made."""


class Debts:
    """What is owed, by bucket.

    Args:
        recent: what the store said last.
        fleet: N. One gateway waits for nobody.
        now_us: the local clock.
        most: how many buckets are remembered; beyond it the oldest are forgotten.
    """

    def __init__(
        self,
        recent: Recent,
        fleet: Fleet,
        now_us: Callable[[], int],
        most: int = 100_000,
    ) -> None:
        self.entries: OrderedDict[Key, Debt] = OrderedDict()  # of which the oldest is found at once
        self.paid = 0
        """How many charges the store has made."""
        self.lost = 0
        """How many debts were forgotten, because there were too many or the store was away for too long."""
        self._recent = recent
        self._fleet = fleet
        self._now_us = now_us
        self._most = most
        self._lock = Lock()
        begin_anew_after_fork(self)

    def spent(self, op: Op, share: Limit, parts: int) -> None:
        """The local share has admitted it, in an outage.

        Args:
            share: this gateway's part of the limit.
            parts: how many there are.
        """
        used = (op.limit.capacity - self._recent.remaining(op)) / parts
        with self._lock:
            self._debt(op).spend(op.cost, share, used, self._now_us())

    def missed(self, op: Op) -> None:
        """The local share has admitted it, though the store answers others."""
        with self._lock:
            self._debt(op).firm += op.cost

    def lower(self, op: Op, left: Seen, at_us: int) -> None:
        """The store may have forgotten that it left `left` in this bucket at `at_us`."""
        with self._lock:
            debt = self._debt(op)
            if debt.left is None or at_us >= debt.at_us:
                debt.left, debt.at_us = left, at_us

    def unasked(self, ops: Sequence[Op], now_us: int) -> None:
        """The store did not decide these."""
        for op in ops:
            debt = self.entries.get(_key(op))
            if debt is not None:
                debt.unasked_us = now_us

    def returned(self, concerned: Callable[[str, str], bool]) -> None:
        """A server answers again; `concerned` says for which identities and labels."""
        now_us = self._now_us()
        with self._lock:
            for debt in self.entries.values():
                if concerned(debt.op.identity, debt.op.colocate):
                    debt.unasked_us = now_us

    def settling(self, ops: Sequence[Op]) -> bool:
        """Whether other gateways may not have paid yet what they owe to one of these."""
        debts = [self.entries.get(_key(op)) for op in ops]
        return any(debt is not None and self._in_grace(debt, self._now_us()) for debt in debts)

    def due(self, ops: Sequence[Op]) -> Debt | None:
        """A debt to pay before these are asked for. Whoever gets it says how that went: `settled` or `failed`. One that
        the bucket was too empty for comes again a little later."""
        with self._lock:
            for op in ops:
                debt = self.entries.get((op.identity, op.rule))
                if debt is not None and self._take_up(debt):
                    return debt
        return None

    def oldest(self, count: int) -> list[Debt]:
        """Some debts to pay, the oldest first."""
        with self._lock:
            return [debt for debt in list(islice(self.entries.values(), count)) if self._take_up(debt)]

    def settled(self, debt: Debt, tokens: int) -> None:
        """The store has done it, and there were so many tokens to take."""
        with self._lock:
            self.paid += 1
            debt.charged(tokens, self._now_us())
            if debt.is_paid and not self._in_grace(debt, debt.asked_us):
                self.entries.pop(_key(debt.op), None)
            elif _key(debt.op) in self.entries:
                self.entries.move_to_end(_key(debt.op))

    def failed(self, debt: Debt) -> None:
        """Nobody knows whether the store has done it: it is owed still, under the same name, and others come first."""
        with self._lock:
            debt.busy = False
            if _key(debt.op) in self.entries:
                self.entries.move_to_end(_key(debt.op))

    def use_rules(self, ruleset: RuleSet, in_force: Callable[[Op], bool]) -> None:
        """Other rules are in force: what is owed is owed under those.

        Args:
            in_force: whether the limit of an operation is that of somebody still.
        """
        with self._lock:
            for key, debt in list(self.entries.items()):
                rule = ruleset.by_id.get(debt.op.rule)
                limit = None if rule is None else rule.limit
                if limit is None or isinstance(limit, SlotLimit) or limit.algorithm != debt.op.limit.algorithm:
                    del self.entries[key]
                elif not in_force(debt.op):
                    debt.op, debt.left = debt.op._replace(limit=limit, carry=rule.carry if rule else None), None

    def forget(self, identity: str, rule: str | None) -> None:
        """Nothing is owed to one bucket, or to all buckets of an identity: they were reset."""
        with self._lock:
            for key in [key for key in self.entries if key[0] == identity and rule in (None, key[1])]:
                del self.entries[key]

    def begin_after_fork(self) -> None:
        """In a child process: what is owed is the parent's to pay."""
        self._lock = Lock()
        self.entries = OrderedDict()

    def _debt(self, op: Op) -> Debt:
        debt = self.entries.get(_key(op))
        if debt is None:
            if len(self.entries) >= self._most:
                self.entries.popitem(last=False)
                self.lost += 1
            debt = self.entries[_key(op)] = Debt(op._replace(enforce=True, spend=True))
        return debt

    def _take_up(self, debt: Debt) -> bool:
        """Make up the charge of a debt; False when somebody is at it already, or nothing is owed any more."""
        now_us = self._now_us()
        in_grace = self._in_grace(debt, now_us)
        if debt.busy or ((in_grace or debt.short) and now_us - debt.paid_us < PAUSE_US):
            return False
        debt.asked_us = now_us
        debt.charge = self._charge(debt)
        if debt.charge is None:
            if not in_grace:
                del self.entries[_key(debt.op)]
            return False
        debt.busy = True
        return True

    def _in_grace(self, debt: Debt, now_us: int) -> bool:
        return debt.share is not None and self._fleet.size > 1 and now_us - debt.unasked_us < GRACE_US

    def _charge(self, debt: Debt) -> Charge | None:
        """What to ask for; a charge that was asked for already stays as it is, but for what may be left by now."""
        most = debt.most_left(debt.asked_us)
        if most is None:
            debt.left = None
        if debt.charge is not None and debt.charge.name:
            if debt.asked_us - debt.named_us < NAMED_US:
                return debt.charge._replace(most=most)
            self.lost += 1
        debt.named_us = debt.asked_us
        tokens = debt.take_owed(debt.asked_us)
        if not tokens and most is None:
            return None
        return Charge(debt.op._replace(cost=tokens), most, urandom(NAME_BYTES) if tokens else b"")


def _key(op: Op) -> Key:
    return op.identity, op.rule
