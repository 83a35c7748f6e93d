"""What a process needs for slots besides the store: holders' names, decisions, its part while the store is away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from limen.core.concurrency import SlotLimit, SlotsSeen
from limen.core.decision import Decision, Source
from limen.core.events import Observer
from limen.engine.conclude import no_limit
from limen.engine.fleet import Fleet
from limen.errors import StoreError
from limen.rules.model import Rule
from limen.stores.base import Slot
from limen.stores.memory import MemoryStore

__all__ = ["LocalSlots", "conclude_slot", "new_holder"]


def new_holder() -> str:
    """A name that no other holder has, in no process."""
    return uuid4().hex


def conclude_slot(rule: Rule, limit: SlotLimit, seen: SlotsSeen, source: Source, degraded: bool = False) -> Decision:
    """The decision about a slot. Nobody knows when all will be free, so there is no reset."""
    allowed = seen.allows(limit)
    if rule.mode == "shadow":
        return no_limit(() if allowed else (rule.id,))
    quota = None if rule.policy is None else rule.policy.quota
    if allowed:
        left = limit.capacity - seen.held - 1
        return Decision(True, quota, left, 0, None, rule.id, "allowed", source, degraded, policy=rule.policy)
    wait_ms = -(-seen.first_lapses_us // 1000)
    return Decision(False, quota, 0, wait_ms, None, rule.id, "over_limit", source, degraded, policy=rule.policy)


class LocalSlots:
    """What a process knows of slots by itself, and its part of each limit while the store is away.

    A part is rounded up, so that no rule stops everything: together the processes may then hold up to one slot each
    beyond the limit.

    Args:
        now_us: the local clock.
        source: what decisions of the store are marked with.
        fleet: how many processes share each limit.
        observer: is told of every decision, and when the store does not answer.
    """

    def __init__(self, now_us: Callable[[], int], source: Source, fleet: Fleet, observer: Observer | None) -> None:
        self.now_us = now_us
        self.source: Source = source
        self.kept = MemoryStore(now_us)
        self._fleet = fleet
        self._observer = observer

    def part(self, slot: Slot) -> Slot:
        """The same slot of this process's part of the limit."""
        capacity = -(-slot.limit.capacity // self._fleet.size)
        return slot._replace(limit=replace(slot.limit, capacity=capacity))

    def decided(self, decision: Decision, asked_us: int) -> None:
        """Tell whoever wants to know of a decision."""
        if self._observer is not None:
            self._observer.on_decision(decision, self.now_us() - asked_us)

    def unheard(self, error: StoreError) -> None:
        """Tell whoever wants to know that the store did not answer."""
        if self._observer is not None:
            self._observer.on_store_error(error.kind, error.shard)
