"""Stores on real servers whose time a clock of the test moves."""

from __future__ import annotations

import re
from collections.abc import Callable

import redis

from limen.stores.base import AsyncStore, Store
from limen.stores.valkey.aio import AsyncValkeyStore
from limen.stores.valkey.endpoint import Target
from limen.stores.valkey.names import Names
from limen.stores.valkey.rotation import AsyncRotatingStore, RotatingStore
from limen.stores.valkey.script import Commands, the_script
from limen.stores.valkey.sync import ValkeyStore
from limen.stores.valkey.url import parse_target
from limen.testing import ManualClock

__all__ = ["DRIVERS", "LOOSER_UNDER_TWO_SECRETS", "PATIENT_MS", "ServerClock"]

VIRTUAL_TIME = b"redis.call('MGET', 'virtual seconds', 'virtual microseconds')"
PATIENT_MS = 20_000


LOOSER_UNDER_TWO_SECRETS = {
    "callers at the same moment hold exactly the slots that there are":
        "a slot is asked for under one secret after the other: who comes between may be refused the last one",
}  # fmt: skip
"""What is not promised while one secret replaces another, and why."""


class ServerClock(ManualClock):
    """Tells a server what time it is."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._server = redis.Redis(port=port)

    def set(self, seconds: float) -> None:
        super().set(seconds)
        now_us = self.now_us()
        self._server.mset({"virtual seconds": now_us // 1_000_000, "virtual microseconds": now_us % 1_000_000})

    def close(self) -> None:
        self._server.close()


def virtual_commands(now_us: Callable[[], int], previous: str | None = None) -> Commands:
    """The script that ships, but for where it reads the time.

    Keys expire in real time: on a busy machine one could be gone in the middle of a story of virtual seconds.
    """
    script, asked = re.subn(rb"(redis\.)?call\('TIME'\)", VIRTUAL_TIME, the_script())
    script, patient = re.subn(rb"30000\) \+ 1000\)", b"30000) + 3600000)", script)
    assert asked == 1
    assert patient
    return Commands(Names("now", previous), script, now_us)


def at(port: int) -> Target:
    return parse_target(f"valkey://127.0.0.1:{port}")


def for_coroutines(port: int, clock: ManualClock) -> AsyncStore:
    return AsyncValkeyStore(at(port), virtual_commands(clock.now_us), PATIENT_MS)


def for_threads(port: int, clock: ManualClock) -> Store:
    return ValkeyStore(at(port), virtual_commands(clock.now_us), PATIENT_MS)


def two_secrets_for_coroutines(port: int, clock: ManualClock) -> AsyncStore:
    return AsyncRotatingStore(AsyncValkeyStore(at(port), virtual_commands(clock.now_us, "before"), PATIENT_MS))


def two_secrets_for_threads(port: int, clock: ManualClock) -> Store:
    return RotatingStore(ValkeyStore(at(port), virtual_commands(clock.now_us, "before"), PATIENT_MS))


DRIVERS: dict[str, Callable[[int, ManualClock], AsyncStore | Store]] = {
    "for coroutines": for_coroutines,
    "for threads": for_threads,
    "two secrets, for coroutines": two_secrets_for_coroutines,
    "two secrets, for threads": two_secrets_for_threads,
}
