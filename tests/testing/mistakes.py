"""A store with a mistake, and the promise that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from limen.testing import ManualClock

__all__ = ["BREAKS", "breaks", "make"]

BREAKS: dict[type, str] = {}
"""A promise that each store breaks."""


def breaks(promise: str) -> Callable[[type], type]:
    """Say which promise the decorated store breaks."""

    def note(store: type) -> type:
        BREAKS[store] = promise
        return store

    return note


def make(store: type, clock: ManualClock) -> Any:
    """One of them."""
    local = MemoryStore(clock.now_us)
    return store(local) if issubclass(store, AsyncMemoryStore) else store(clock.now_us)
