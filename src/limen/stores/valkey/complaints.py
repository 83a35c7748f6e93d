"""What is said in the log of a server that does not decide: when it begins, and why, but not again and again."""

from __future__ import annotations

import logging
from time import monotonic

from limen.errors import StoreError

__all__ = ["Complaints"]

log = logging.getLogger("limen.store")

PAUSE_S = 60.0
SAYS_NOTHING = ("down", "timeout", "overload")
"""Kinds of errors that the server itself did not give."""


class Complaints:
    """About one server."""

    def __init__(self) -> None:
        self._said_at = float("-inf")
        self._kind = ""

    def lost(self, why: StoreError) -> None:
        """It stopped to decide. Said once a minute: a server may come and go."""
        now = monotonic()
        if now - self._said_at < PAUSE_S:
            log.debug("%s", why)
        else:
            self._said_at = now
            log.warning("%s; deciding without it until it does", why)

    def trouble(self, why: StoreError) -> None:
        """It still does not. Said once the server tells why: somebody may have to do something."""
        said = why.kind not in SAYS_NOTHING and why.kind != self._kind
        self._kind = why.kind if said else self._kind
        log.log(logging.WARNING if said else logging.DEBUG, "%s", why)

    def answers(self) -> None:
        """It decides again."""
        self._kind = ""
