"""Waiting for what is to become true, and finding what nobody uses."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable

import redis

__all__ = ["PATIENCE_S", "address_nobody_uses", "port_nobody_uses", "wait_for"]

PATIENCE_S = 30.0
LOOK_S = 0.02


def wait_for(condition: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    """Look until it is so. Servers that do not answer meanwhile are no error.

    Raises:
        AssertionError: it is not so after that many seconds.
    """
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        with contextlib.suppress(redis.RedisError, OSError):
            if condition():
                return
        time.sleep(LOOK_S)  # the pace of looking, not a wait for time
    raise AssertionError(f"in vain: {what}")


def port_nobody_uses() -> int:
    """By chance, below the ports of outgoing calls."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def address_nobody_uses() -> str:
    """By chance, one of this machine's own: where a server calls from, so that its packets can be told apart."""
    chance = random.SystemRandom()
    return f"127.{chance.randrange(64, 128)}.{chance.randrange(256)}.{chance.randrange(1, 255)}"
