"""One server, as those who ask see it: a breaker before its connection, and a script that it may have lost."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

import hiredis

from limen.errors import StoreError
from limen.stores.valkey.keeper import Keeper
from limen.stores.valkey.link import Reply
from limen.stores.valkey.replies import Refusal, store_error
from limen.stores.valkey.topology import ASKING
from limen.stores.valkey.waiting import look, within

__all__ = ["Node"]

log = logging.getLogger("limen.store")

START_S = 1.0
REFUSALS_TO_OPEN = 5
WITHIN_S = 1.0
"""So many refusals in that time, each of which says that the server cannot decide now, open the breaker."""
RELOAD_PAUSE_S = 1.0
"""How long a script that was refused is not sent again."""


class Node(Keeper):
    """A server to ask. See `Keeper` for the arguments."""

    loads = 0
    """How often the script was sent again."""
    load_error = ""
    """What the server said to the script; empty when it took it."""
    _load_refused_at = 0.0
    _refusals = 0
    _refused_at = 0.0

    async def start(self) -> None:
        """Begin to connect; returns when the node answers, or after a second."""
        self.connect()
        if not await self.ready(START_S):
            log.warning("%s does not answer yet; deciding without it until it does", self.endpoint)

    async def begin(self) -> None:
        """Begin to connect; returns when it is clear whether the first attempt succeeded, or after a second."""
        self.connect()
        await within(START_S, self._tried)

    def check(self) -> None:
        """
        Raises:
            StoreError: it would not be asked now.
        """
        if self._link is None or self.breaker.is_open:
            raise self._again()

    def ask(self, command: bytes) -> asyncio.Future[Reply]:
        """Send a command, unless the breaker is open.

        Raises:
            StoreError: nothing was sent.
        """
        link = self._link
        if link is None or self.breaker.is_open:
            raise self._again()
        return link.ask(command)

    def ask_asking(self, command: bytes) -> asyncio.Future[Reply]:
        """Send a command about a slot that this node is about to get: two in a row, which nobody comes between.

        Raises:
            StoreError: nothing was sent.
        """
        self.ask(ASKING).add_done_callback(look)
        return self.ask(command)

    def tell(self, command: bytes) -> asyncio.Future[Reply]:
        """Send a command behind all earlier ones, also to a node that is late with its answers.

        Raises:
            StoreError: there is no connection.
        """
        if self._link is None:
            raise self._again()
        return self._link.ask(command, urgent=True)

    def reload(self, loads_before: int) -> None:
        """Send the script, unless that was done since the refused question: many are refused at once.

        Args:
            loads_before: `loads` when the question was asked.
        """
        if self.loads == loads_before and monotonic() - self._load_refused_at > RELOAD_PAUSE_S:
            self.loads += 1
            self.ask(self._load).add_done_callback(self._read_load)

    def refused(self, refusal: Refusal) -> None:
        """Note an error that says something about the server: it is the wrong one, or cannot decide now."""
        error = store_error(refusal, str(self.endpoint), self.shard)
        if refusal.stale and self._link is not None:
            self._stale = error
            self._link.close()
        elif refusal.unusable:
            self._count(error)

    def _again(self) -> StoreError:
        """The trouble, for one more caller: an error that is raised twice would collect the traces of both."""
        self._revive()
        return StoreError(str(self._trouble), self._trouble.kind, self._trouble.shard)

    def _count(self, error: StoreError) -> None:
        now = monotonic()
        self._refusals = self._refusals + 1 if now - self._refused_at < WITHIN_S else 1
        self._refused_at = now
        if self._refusals >= REFUSALS_TO_OPEN and not self.breaker.is_open:
            self._refusals = 0
            self._open_breaker(error)

    def _read_load(self, loaded: asyncio.Future[Reply]) -> None:
        """A connection that was lost shows itself in the question that follows."""
        if look(loaded) is None:
            self._loaded(loaded.result())

    def _loaded(self, reply: Reply) -> None:
        self.load_error = str(reply) if isinstance(reply, hiredis.ReplyError) else ""
        if self.load_error:
            self._load_refused_at = monotonic()
