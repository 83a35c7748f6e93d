"""The life of a slot, whatever kind of code holds it. Plain functions, no await.

    asked ─┬─(one is free)─────────► held ─┬─(left)─────────────────────► let go
           │                               └─(not renewed for a lease)──► lost: others may have it
           ├─(all are held)────────► denied: a value, nobody is stopped
           └─(the store is away)───► held or denied by this process's part of the limit; or denied with 503

The store is told to let go on every way out, also when its answer was not heard: it may keep the slot for us. What
cannot be told lapses with its lease.
"""

from __future__ import annotations

from math import inf
from typing import Literal

from limen.core.concurrency import SlotLimit, SlotsSeen
from limen.core.decision import Decision, Source
from limen.engine.conclude import no_limit, undecided
from limen.engine.local_slots import LocalSlots, conclude_slot
from limen.engine.plan import SlotPlan
from limen.errors import StoreError, UsageError
from limen.stores.base import Slot

__all__ = ["Holding"]


class Holding:
    """One slot, from the question until it is let go.

    Args:
        plan: what to ask for; None when nothing limits it, or what is decided already.
        local: what this process knows by itself.
    """

    def __init__(self, plan: SlotPlan | Decision | None, local: LocalSlots) -> None:
        self._plan = plan
        self._local = local
        self._decision: Decision | None = None
        self._begun = False
        self._asked_us = 0
        self._in_store: Literal["no", "maybe", "yes"] = "no"
        self._part: Slot | None = None
        """What is held here, without the store."""
        self._until_us: float = inf
        """When it lapses at the earliest: the lease counts from before the question left."""
        self._lapsed = False

    @property
    def decision(self) -> Decision:
        """Whether there was a slot, and how many more there are.

        Raises:
            UsageError: nobody has asked yet.
        """
        if self._decision is None:
            raise UsageError("the slot is asked for when its block begins: with limiter.slot(client, rule) as slot")
        return self._decision

    @property
    def allowed(self) -> bool:
        """Whether the work may be done. When not, nothing is held."""
        return self.decision.allowed

    @property
    def lost(self) -> bool:
        """Whether the lease has run out before the block ended: others may have had the slot since."""
        return self._lapsed or self._local.now_us() >= self._until_us

    def raise_if_denied(self) -> None:
        """Raise `RateLimited` when there was no slot, else do nothing."""
        self.decision.raise_if_denied()

    @property
    def _wanted(self) -> SlotPlan:
        assert isinstance(self._plan, SlotPlan)
        return self._plan

    @property
    def _slot(self) -> Slot:
        return self._wanted.slot

    @property
    def _held(self) -> bool:
        """Whether there is something to renew."""
        return self._until_us < inf and not self.lost

    def _begin(self) -> bool:
        """Whether the store has to be asked."""
        if self._begun:
            raise UsageError("a slot is held once; for another call limiter.slot(client, rule) again")
        self._begun, self._asked_us = True, self._local.now_us()
        if not isinstance(self._plan, SlotPlan):
            self._decide(self._plan or no_limit())
            return False
        self._in_store = "maybe"
        return True

    def _found(self, seen: SlotsSeen) -> None:
        """The store has answered."""
        slot = self._slot
        self._in_store = "yes" if seen.allows(slot.limit) else "no"
        self._conclude(slot.limit, seen, self._local.source)

    def _without_store(self, error: StoreError) -> None:
        """The store has not answered: this process's part of the limit decides, or nobody."""
        self._local.unheard(error)
        rule, slot = self._wanted
        if rule.on_failure == "closed" and rule.mode == "enforce":
            self._decide(undecided(rule))
            return
        part = self._local.part(slot)
        seen = self._local.kept.acquire(part)
        self._part = part if seen.allows(part.limit) else None
        self._conclude(part.limit, seen, "local_share", degraded=True)

    def _conclude(self, limit: SlotLimit, seen: SlotsSeen, source: Source, degraded: bool = False) -> None:
        if seen.allows(limit):
            self._until_us = self._asked_us + limit.lease_us
        self._decide(conclude_slot(self._wanted.rule, limit, seen, source, degraded))

    def _decide(self, decision: Decision) -> None:
        self._decision = decision
        self._local.decided(decision, self._asked_us)

    def _renewed(self, held: bool, asked_us: int) -> None:
        """It is held for another lease, or was not held any more."""
        if held:
            self._until_us = asked_us + self._slot.limit.lease_us
        else:
            self._lapsed = True

    def _leaving(self) -> bool:
        """The block ends. Whether the store has to be told."""
        self._lapsed, self._until_us = self.lost, inf
        if self._part is not None:
            self._ended(self._local.kept.release(self._part))
        return self._in_store != "no"

    def _released(self, held: bool) -> None:
        """The store has let it go."""
        if self._in_store == "yes":
            self._ended(held)
        self._in_store = "no"

    def _ended(self, held: bool) -> None:
        self._lapsed = self._lapsed or not held
