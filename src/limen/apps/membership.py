"""One process as a member of its fleet: it tells that it runs, counts the others, and takes part in drills."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from uuid import uuid4

from limen.admin.heart import Heart, Others
from limen.admin.records import Gateway, Heard
from limen.apps.rehearsal import Rehearsal
from limen.apps.seldom import Seldom
from limen.engine.aio import AsyncLimiter
from limen.errors import LimenError

__all__ = ["Membership", "this_process"]

log = logging.getLogger("limen")


def this_process(kind: str) -> Gateway:
    """What is true of this process from its start to its end."""
    return Gateway(uuid4().hex, socket.gethostname(), os.getpid(), kind, int(time.time()), 0, "", "", 0.0)


class Membership:
    """Beats, and does what it hears.

    Args:
        others: where processes tell each other that they run.
        describe: what this process tells of itself now.
        limiter: who decides in it; None while nobody does.
        on_revision: is told the revision of the rules when that has changed.
        on_standing: the same of what was said of single clients.
        on_behind: is told how many have older rules than the database, each time.

    Attributes:
        heart: start, stop and poke it.
    """

    def __init__(
        self,
        others: Others,
        describe: Callable[[], Gateway],
        limiter: Callable[[], AsyncLimiter | None],
        on_revision: Callable[[int], None],
        on_standing: Callable[[int], None],
        on_behind: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.heart = Heart(others, describe, self._hear, self._miss)
        self._limiter = limiter
        self._on_revision = on_revision
        self._on_standing = on_standing
        self._on_behind = on_behind
        self._revision = self._standing = 0
        self._rehearsal = Rehearsal()
        self._words = Seldom(log)

    def _hear(self, heard: Heard) -> None:
        self._words.over("heart", "the rules database is told again that this process runs")
        self._on_behind(heard.behind)
        if heard.revision != self._revision:
            self._revision = heard.revision
            self._on_revision(heard.revision)
        if heard.standing != self._standing:
            self._standing = heard.standing
            self._on_standing(heard.standing)
        limiter = self._limiter()
        if limiter is not None:
            limiter.fleet.heard(heard.alive, heard.most, "database")
            self._rehearsal.follow(limiter, heard.drill, heard.drill_s)

    def _miss(self, error: Exception) -> None:
        trace = None if isinstance(error, LimenError) else error
        self._words.warning("heart", f"the rules database is not told that this process runs: {error}", trace)
