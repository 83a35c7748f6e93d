"""Slots of concurrency limits in this process."""

from __future__ import annotations

from collections import OrderedDict

from limen.core import concurrency
from limen.core.concurrency import Held, SlotsSeen
from limen.stores.base import Slot

__all__ = ["HeldSlots"]

LOOKED_AT_PER_ACQUIRE = 2


class HeldSlots:
    """Who holds slots. Not safe for threads: its store holds a lock.

    Holders that never came back are forgotten bit by bit: each acquire looks at the two limits that were used least
    recently.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, str], Held] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def acquire(self, slot: Slot, now_us: int) -> SlotsSeen:
        self._tidy(now_us)
        seen, held = concurrency.acquire(self._of(slot), slot.limit, slot.holder, now_us)
        self._keep(slot, held)
        return seen

    def renew(self, slot: Slot, now_us: int) -> bool:
        renewed, held = concurrency.renew(self._of(slot), slot.limit, slot.holder, now_us)
        self._keep(slot, held)
        return renewed

    def release(self, slot: Slot, now_us: int) -> bool:
        released, held = concurrency.release(self._of(slot), slot.holder, now_us)
        self._keep(slot, held)
        return released

    def clear(self) -> None:
        self._held.clear()

    def _of(self, slot: Slot) -> Held:
        return self._held.get((slot.identity, slot.rule), {})

    def _keep(self, slot: Slot, held: Held) -> None:
        key = (slot.identity, slot.rule)
        self._held.pop(key, None)
        if held:
            self._held[key] = held

    def _tidy(self, now_us: int) -> None:
        for _ in range(min(LOOKED_AT_PER_ACQUIRE, len(self._held))):
            key, held = self._held.popitem(last=False)
            if max(held.values()) > now_us:
                self._held[key] = held
