"""Whether a server that was late once is there at all: found out soon, also where little is asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from limen.core.breaker import DOUBT_S
from limen.errors import StoreError
from limen.stores.valkey.link import Link
from limen.stores.valkey.waiting import look

__all__ = ["Doubt"]

LOOK_S = 0.001


class Doubt:
    """Begins with a late answer, and ends with one that comes in time, or with `confirmed`.

    Args:
        loop: the event loop of the links.
        deadline_s: how long a caller waits for a reply.
        question: what is asked meanwhile, for nobody else may ask.
        confirmed: called with a link on which no answer came in time for long enough.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deadline_s: float,
        question: bytes,
        confirmed: Callable[[Link], None],
    ) -> None:
        self._loop = loop
        self._seconds = max(DOUBT_S, 3 * deadline_s)  # so that the question has its whole deadline
        self._question = question
        self._confirmed = confirmed
        self._timer: asyncio.TimerHandle | None = None

    @property
    def goes_on(self) -> bool:
        return self._timer is not None

    def begin(self, link: Link) -> None:
        """There was a late answer."""
        if self._timer is None:
            self._later(self._seconds / 2, self._ask, link)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self, seconds: float, step: Callable[[Link], None], link: Link) -> None:
        self._timer = self._loop.call_later(seconds, step, link)

    def _ask(self, link: Link) -> None:
        self._timer = None
        if link.late and not link.lost.done():
            with contextlib.suppress(StoreError):
                link.ask(self._question, urgent=True).add_done_callback(look)
            self._later(self._seconds / 2, self._look, link)

    def _look(self, link: Link) -> None:
        """What this process has not read yet is read before."""
        self._later(LOOK_S, self._judge, link)

    def _judge(self, link: Link) -> None:
        self._timer = None
        if link.late:
            self._confirmed(link)
