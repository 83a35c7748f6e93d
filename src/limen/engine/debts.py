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
from limen.core.share import owed, used_after
from limen.engine.deny_cache import Key
from limen.engine.fleet import Fleet
from limen.rules.ruleset import RuleSet
from limen.stores.base import Charge, Op
from limen.stores.fork import begin_anew_after_fork

__all__ = ["Debt", "Debts", "Recent"]

GRACE_US = 1_000_000
"""Longer than the first to return is ahead of the last, when all can be reached again."""
GRACE_PAUSE_US = 100_000
"""How often it pays meanwhile, for each bucket: from the first moment on."""
LONG_AGO_US = -(2**62)
NAME_BYTES = 16
NAMED_US = 540_000_000
"""How long a charge is repeated: a store knows for ten minutes which ones it made."""


class Debt:
    """What is owed to one bucket."""

    __slots__ = (
        "asked_us", "at_us", "busy", "charge", "left", "named_us", "op", "paid_us", "shard", "share", "spent",
        "unasked_us", "used", "used_us",
    )  # fmt: skip

    def __init__(self, op: Op) -> None:
        self.op = op
        self.spent = 0
        """Whole tokens that were admitted without the store and are not charged yet."""
        self.used = 0.0
        """What is used of this gateway's part, in tokens, at `used_us`."""
        self.used_us = 0
        self.share: Limit | None = None
        """This gateway's part, since something was spent of it."""
        self.shard = ""
        """The server that did not answer then."""
        self.unasked_us = self.paid_us = LONG_AGO_US
        """When nobody could ask for it last, or could again for the first time; and when it was paid for last."""
        self.left: Seen | None = None
        """What was left in it at `at_us`, as the store itself said."""
        self.at_us = 0
        self.charge: Charge | None = None
        """What the store is asked for, or was asked for without an answer."""
        self.busy = False
        """Whether somebody is asking: what others ask after that is decided after that."""
        self.asked_us = self.named_us = 0
        """When it was asked for last, and under this name for the first time."""

    @property
    def is_paid(self) -> bool:
        return not self.spent and self.left is None and self.charge is None

    def spend(self, cost: int, share: Limit, used: float, now_us: int, shard: str) -> None:
        """The local share has admitted it. `used` is what was used of this part before the first time."""
        if self.share is None:
            self.used, self.used_us = used, now_us
        self.share, self.shard = share, shard
        self.used = used_after(self.used, now_us - self.used_us, share, cost)
        self.used_us = now_us
        self.spent += cost

    def take_owed(self, now_us: int) -> int:
        """What is owed for all that; it is asked for from now on."""
        spent, self.spent = self.spent, 0
        if not spent or self.share is None:
            return 0
        tokens = owed(spent, used_after(self.used, now_us - self.used_us, self.share, 0))
        self.used = max(0.0, self.used - tokens)
        return tokens

    def most_left(self, now_us: int) -> int | None:
        """What can be in it by now at most, in the unit of what is seen; None when nobody knows."""
        if self.left is None:
            return None
        limit = self.op.limit
        most = limit.later(self.left, now_us - self.at_us, limit.capacity, limit.capacity)
        return most if most is None or isinstance(most, int) else int(most[0])


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

    def spent(self, op: Op, share: Limit, parts: int, shard: str) -> None:
        """The local share has admitted it.

        Args:
            share: this gateway's part of the limit.
            parts: how many there are.
            shard: the server that did not answer.
        """
        used = (op.limit.capacity - self._recent.remaining(op)) / parts
        with self._lock:
            self._debt(op).spend(op.cost, share, used, self._now_us(), shard)

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

    def settling(self, ops: Sequence[Op]) -> str | None:
        """The server that other gateways may not have paid yet, if one of these has to wait for that."""
        for op in ops:
            debt = self.entries.get(_key(op))
            if debt is not None and self._in_grace(debt, self._now_us()):
                return debt.shard
        return None

    def due(self, ops: Sequence[Op]) -> Debt | None:
        """A debt to pay before these are asked for. Whoever gets it says how that went: `settled` or `failed`."""
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

    def settled(self, debt: Debt) -> None:
        """The store has done it."""
        with self._lock:
            self.paid += 1
            debt.paid_us = self._now_us()
            if debt.charge is not None and debt.charge.most is not None and debt.at_us <= debt.asked_us:
                debt.left = None
            debt.charge, debt.busy = None, False
            if debt.is_paid and not self._in_grace(debt, debt.asked_us):
                self.entries.pop(_key(debt.op), None)

    def failed(self, debt: Debt) -> None:
        """Nobody knows whether the store has done it: it is owed still, under the same name, and others come first."""
        with self._lock:
            debt.busy = False
            if _key(debt.op) in self.entries:
                self.entries.move_to_end(_key(debt.op))

    def use_rules(self, ruleset: RuleSet) -> None:
        """Other rules are in force: what is owed is owed under those."""
        with self._lock:
            for key, debt in list(self.entries.items()):
                rule = ruleset.by_id.get(debt.op.rule)
                limit = None if rule is None else rule.limit
                if limit is None or isinstance(limit, SlotLimit) or limit.algorithm != debt.op.limit.algorithm:
                    del self.entries[key]
                elif limit != debt.op.limit:
                    debt.op, debt.left = debt.op._replace(limit=limit), None

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
        if debt.busy or (in_grace and now_us - debt.paid_us < GRACE_PAUSE_US):
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


class Recent:
    """Buckets that the store admitted something from in the last ten to twenty seconds, and what was in them then.

    Writing it down is on the path of every request: who is in a hurry does what `note` does without calling it.

    Args:
        most: how many are remembered, twice at most; of more, the last ones.
    """

    PERIOD_US = 10_000_000

    def __init__(self, most: int = 50_000) -> None:
        self.admitted: dict[Key, tuple[Op, Seen, int]] = {}
        """What was asked, what was seen before that, and when it was asked."""
        self.turns_us = 0
        """When to call `turn`."""
        self._before: dict[Key, tuple[Op, Seen, int]] = {}
        self._most = most
        self._full_us = 0

    def note(self, op: Op, seen: Seen, asked_us: int) -> None:
        """The store has taken the cost of `op` from what it saw."""
        if asked_us >= self.turns_us:
            self.turn(asked_us)
        self.admitted[op.identity, op.rule] = op, seen, asked_us

    def turn(self, now_us: int) -> None:
        """Forget what was before, when it is old or when there is too much; and look again soon."""
        if now_us >= self._full_us or len(self.admitted) >= self._most:
            self._before, self.admitted = self.admitted, {}
            self._full_us = now_us + self.PERIOD_US
        self.turns_us = now_us + self.PERIOD_US // 100

    def concerning(self, concerned: Callable[[str, str], bool]) -> list[tuple[Op, Seen, int]]:
        """Of those whose identity and label are concerned: the operation, what was left after it, and when."""
        known = {**self._before, **self.admitted}
        return [
            (op, op.limit.after(seen, op.cost), at_us)
            for op, seen, at_us in known.values()
            if concerned(op.identity, op.colocate)
        ]

    def remaining(self, op: Op) -> int:
        """Whole tokens that were left in a bucket when something was admitted from it last; 0 when nobody knows."""
        known = self.admitted.get(_key(op)) or self._before.get(_key(op))
        if known is None or known[0].limit != op.limit:
            return 0
        before, seen, _ = known
        return min(op.limit.capacity, op.limit.remaining(op.limit.after(seen, before.cost)))

    def forget(self, identity: str, rule: str | None) -> None:
        """Forget one bucket, or all buckets of an identity."""
        for known in (self.admitted, self._before):
            for key in [key for key in list(known) if key[0] == identity and rule in (None, key[1])]:
                known.pop(key, None)


def _key(op: Op) -> Key:
    return op.identity, op.rule
