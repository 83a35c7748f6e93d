"""A secret is replaced while everything runs: no client begins afresh, and no API key is refused before its time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from limen.admin.service import AdminService
from limen.apps.backend import Backend
from limen.apps.settings import Shared
from limen.errors import Conflict, SettingsError

OLD, NEW = "the secret of last year", "the secret of this year"
KEPT = "kept-with-the-rules"
RULES = {"daily": {"limit": "10/day", "key_by": ["client"]}}
Until = Callable[[Callable[[], object]], Awaitable[None]]


class Fleet:
    """Processes on one store and one database, each with secrets of its own."""

    def __init__(self, store: str, folder: Path, opened: AsyncExitStack) -> None:
        self._where = {"store": store, "rules_db": f"sqlite:///{folder / 'rules.db'}"}
        self._opened = opened

    async def start(self, secret: str | None = None, previous: str | None = None) -> Backend:
        settings = Shared(**self._where, secret=secret, previous_secret=previous, deadline_ms=1000)
        return await self._opened.enter_async_context(Backend(settings))


@pytest.fixture
async def fleet(valkey_url: str, tmp_path: Path) -> Fleet:
    async with AsyncExitStack() as opened:
        yield Fleet(valkey_url, tmp_path, opened)


def service_of(backend: Backend) -> AdminService:
    return AdminService(backend.repository, changed=backend.catch_up)


async def left(backend: Backend, cost: int = 1) -> int | None:
    decision = await backend.limiter.check("acme", "daily", cost)
    assert decision.source in ("store", "deny_cache")
    return decision.remaining


async def test_gateways_with_the_old_secret_with_both_and_with_the_new_one_share_every_limit(fleet: Fleet) -> None:
    before = await fleet.start(OLD)
    await service_of(before).apply(RULES)
    await before.catch_up()
    assert await left(before, 4) == 6
    during = await fleet.start(NEW, OLD)
    assert await left(during) == 5, "the buckets of the old secret count"
    assert await left(before) == 4, "gateways that have only the old one see what the others took"
    for remaining in (3, 2, 1):
        assert await left(during) == remaining
    after = await fleet.start(NEW)
    assert await left(after, 0) == 6, "four were spent under the new secret; step 2 waits for the rest"
    assert await left(after) == 5
    assert await left(during) == 0, "its bucket under the old secret holds least"


async def test_a_reset_during_the_change_fills_the_buckets_of_both(fleet: Fleet) -> None:
    during = await fleet.start(NEW, OLD)
    await service_of(during).apply(RULES)
    await during.catch_up()
    assert await left(during, 10) == 0
    await during.limiter.reset("acme", "daily")
    assert await left(during) == 9
    assert await left(await fleet.start(OLD)) == 8


@pytest.mark.parametrize("old", [OLD, None])
async def test_api_keys_are_known_by_both_until_they_are_sent_again(fleet: Fleet, old: str | None) -> None:
    """Without a secret of one's own, the old one is that of the database."""
    before = await fleet.start(old)
    await service_of(before).put_client("acme", {"plan": "gold", "api_keys": ["key-of-acme"]})
    await service_of(before).put_client("solo", {"api_keys": ["key-of-solo"]})
    during = await fleet.start(NEW, old or KEPT)
    assert [during.find(f"key-of-{name}").client for name in ("acme", "solo")] == ["acme", "solo"]
    await service_of(during).put_client("acme", {"plan": "gold", "api_keys": ["key-of-acme"]})
    after = await fleet.start(NEW)
    assert after.find("key-of-acme") == ("acme", "gold", None)
    assert after.find("key-of-solo") is None


async def test_a_key_that_is_known_by_its_old_hash_still_belongs_to_its_client(fleet: Fleet) -> None:
    await service_of(await fleet.start(OLD)).put_client("acme", {"api_keys": ["key-of-acme"]})
    during = await fleet.start(NEW, OLD)
    with pytest.raises(Conflict, match="'acme'"):
        await service_of(during).put_client("thief", {"api_keys": ["key-of-acme"]})


@pytest.mark.parametrize(
    ("secret", "previous", "word"),
    [
        (NEW, "hunter2", "previous secret must have 16 to 64 bytes"),
        (NEW, "x" * 65, "16 to 64"),
        (NEW, NEW, "the same"),
        (None, OLD, "LIMEN_SECRET"),
    ],
)
def test_a_previous_secret_that_cannot_work_is_refused_and_not_shown(
    secret: str | None, previous: str, word: str
) -> None:
    with pytest.raises(SettingsError, match=word) as refused:
        Shared(store="memory://", rules_db="sqlite:///rules.db", secret=secret, previous_secret=previous)
    assert previous not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    shown = repr(Shared(store="memory://", rules_db="sqlite:///rules.db", secret=NEW, previous_secret=OLD))
    assert NEW not in shown
    assert OLD not in shown
