"""A limiter over a store that the caller made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from limen import AsyncLimiter, Limiter, Rule, StoreError, UsageError
from limen.core.algorithm import Seen
from limen.stores.base import Op
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from limen.testing import ManualClock

RULES = [Rule("search", limit="2/minute"), Rule("login", limit="2/minute", on_failure="closed")]


class Shared:
    """One that several limiters could share; it can be away."""

    state = "up"

    def __init__(self) -> None:
        self.buckets = MemoryStore(ManualClock().now_us)
        self.away = False
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def close(self) -> None:
        self.calls.append("close")

    def atomic(self, ops: Sequence[Op]) -> bool:
        return True

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        if self.away:
            raise StoreError("nobody answers")
        return self.buckets.take(ops)


class SharedForCoroutines:
    """The same for coroutines."""

    state = "up"

    def __init__(self, store: Shared) -> None:
        self._store = store

    async def start(self) -> None:
        self._store.start()

    async def close(self) -> None:
        self._store.close()

    def atomic(self, ops: Sequence[Op]) -> bool:
        return True

    async def take(self, ops: Sequence[Op]) -> list[Seen]:
        return self._store.take(ops)


def test_a_limiter_decides_by_the_store_that_it_is_given() -> None:
    store = Shared()
    with Limiter(store, RULES) as one, Limiter(store, RULES) as two:
        decisions = [each.check("acme", "search") for each in (one, two, one)]
        assert [(each.allowed, each.source) for each in decisions] == [
            (True, "store"),
            (True, "store"),
            (False, "store"),
        ]
        assert one.store_state == "up"
    assert store.calls == ["start", "start", "close", "close"]


async def test_a_limiter_for_coroutines_does_so_too() -> None:
    store = Shared()
    async with AsyncLimiter(SharedForCoroutines(store), RULES) as limiter:
        decisions = [await limiter.check("acme", "search") for _ in range(3)]
        assert [(each.allowed, each.source) for each in decisions] == [
            (True, "store"),
            (True, "store"),
            (False, "store"),
        ]
        assert limiter.store_state == "up"
    assert store.calls == ["start", "close"]


def test_without_it_the_rule_says_what_happens() -> None:
    store = Shared()
    with Limiter(store, RULES) as limiter:
        store.away = True
        open_, closed = limiter.check("acme", "search"), limiter.check("acme", "login")
        assert (open_.source, open_.degraded, closed.status) == ("local_share", True, 503)
        store.away = False
        assert limiter.check("acme", "login").source == "store"


@pytest.mark.parametrize("store", [AsyncMemoryStore(MemoryStore(lambda: 0)), None, 5])
def test_a_limiter_takes_no_store_for_coroutines_and_nothing_else(store: Any) -> None:
    with pytest.raises(UsageError, match=r"store for threads \(limen.stores.base.Store\), not "):
        Limiter(store)


@pytest.mark.parametrize("store", [MemoryStore(lambda: 0), None, 5])
def test_a_limiter_for_coroutines_takes_no_store_that_blocks_and_nothing_else(store: Any) -> None:
    with pytest.raises(UsageError, match=r"store for coroutines \(limen.stores.base.AsyncStore\), not "):
        AsyncLimiter(store)
