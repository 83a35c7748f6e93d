"""Follows a drill that somebody started for the whole fleet."""

from __future__ import annotations

import logging
from typing import Protocol

from limen.admin.records import Drill

__all__ = ["Rehearsal"]

log = logging.getLogger("limen")


class Drilled(Protocol):
    """What takes part, such as an `AsyncLimiter`."""

    def drill(self, percent: float, seconds: float) -> None: ...


class Rehearsal:
    """Begins and ends the drill of one process, each with a line in its log."""

    def __init__(self) -> None:
        self._drill: Drill | None = None

    def follow(self, limiter: Drilled, drill: Drill | None, seconds: int) -> None:
        """Do what the database says now.

        Args:
            drill: what is rehearsed; None for nothing.
            seconds: how long it still lasts.

        Raises:
            UsageError: somebody wrote a drill into the database that cannot be.
        """
        if drill == self._drill:
            return
        before, self._drill = self._drill, drill
        if drill is None:
            limiter.drill(0, 0)
            log.warning("the drill %s is over", before.what if before else "")
            return
        limiter.drill(drill.percent, seconds)
        log.warning(
            "drill %s: %g %% of the clients are decided without the store for %d s (%s)",
            drill.what, drill.percent, seconds, drill.reason or "no reason given",
        )  # fmt: skip
