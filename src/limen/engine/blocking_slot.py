"""A slot for code that blocks. No thread renews it: whoever works for longer than a lease does so."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from limen.core.decision import Decision
from limen.engine.local_slots import LocalSlots
from limen.engine.plan import SlotPlan
from limen.engine.slots import Holding
from limen.errors import StoreError
from limen.stores.base import Store

__all__ = ["BlockingSlot"]


class BlockingSlot(Holding):
    """A slot of a concurrency limit: `with limiter.slot("acme", "exports") as slot:`.

    The block runs in any case; `slot.allowed` says whether there was a slot. It is held for one lease: call `renew`
    now and then in longer work, or give the rule a lease that is longer than the work. A slot that was not renewed in
    time is `lost`; it is not asked for again.
    """

    def __init__(self, plan: SlotPlan | Decision | None, local: LocalSlots, store: Store) -> None:
        super().__init__(plan, local)
        self._store = store

    def __enter__(self) -> Self:
        if self._begin():
            try:
                self._ask()
            except BaseException:
                self._leave()  # the store may have answered and not been heard
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def renew(self) -> bool:
        """Hold it for another lease from now. False when it is not held, or not any more."""
        asked_us = self._local.now_us()
        if self._held:
            try:
                self._renewed(self._renew(), asked_us)
            except StoreError as error:
                self._local.unheard(error)
        return self.allowed and not self.lost

    def _ask(self) -> None:
        try:
            seen = self._store.acquire(self._slot)
        except StoreError as error:
            self._without_store(error)
        else:
            self._found(seen)

    def _renew(self) -> bool:
        return self._store.renew(self._slot) if self._part is None else self._local.kept.renew(self._part)

    def _leave(self) -> None:
        if self._leaving():
            self._release()

    def _release(self) -> None:
        try:
            self._released(self._store.release(self._slot))
        except StoreError as error:
            self._local.unheard(error)
