"""What tests of the blocking store have in common."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from typing import Any

import redis

from limen.core.limit import Limit
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.names import Names
from limen.stores.valkey.script import Commands
from limen.stores.valkey.sync import ValkeyStore
from limen.stores.valkey.url import parse_target

__all__ = [
    "LIMIT",
    "PATIENT_MS",
    "TOKEN",
    "Until",
    "admin",
    "answer",
    "clients",
    "in_threads",
    "op",
    "started",
    "store",
    "take",
]

Until = Callable[[Callable[[], object]], Awaitable[None]]
PATIENT_MS = 20_000
LIMIT = Limit(1000, Fraction(0))
TOKEN = LIMIT.token_ticks


def store(url: str, deadline_ms: float = PATIENT_MS, **options: Any) -> ValkeyStore:
    return ValkeyStore(parse_target(url), Commands(Names(None)), deadline_ms, **options)


@contextlib.contextmanager
def started(url: str, deadline_ms: float = PATIENT_MS, **options: Any) -> Iterator[ValkeyStore]:
    opened = store(url, deadline_ms, **options)
    opened.start()
    yield opened
    opened.close()


def op(identity: str = "acme", cost: int = 1, limit: Limit = LIMIT) -> Op:
    return Op(identity, "r", limit, cost)


def take(opened: ValkeyStore, identity: str = "acme", cost: int = 1) -> int:
    """Whole tokens that were there."""
    (seen,) = opened.take([op(identity, cost)])
    return int(seen) // TOKEN


def admin(url: str) -> redis.Redis:
    return redis.Redis.from_url(url.replace("valkey", "redis"))


def clients(url: str) -> int:
    """How many connections of ours the server counts."""
    with admin(url) as store:
        return sum(each["name"] == "limen" for each in store.client_list())


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Do it in threads that begin together; the first that fails fails the test."""
    barrier, failures = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            barrier.wait(20)
            work(number)
        except BaseException as error:  # noqa: BLE001  # it fails the test in the thread that waits for it
            failures.append(error)

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


async def answer(opened: ValkeyStore, identity: str, until: Until) -> int:
    """What there is, as soon as the store says: on a busy machine it may be late once more."""
    found: list[int] = []

    def asked() -> bool:
        with contextlib.suppress(StoreError):
            found.append(take(opened, identity, 0))
        return bool(found)

    await until(asked)
    return found[0]
