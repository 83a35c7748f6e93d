"""One server: keeps a link to it, and a breaker before it.

A server that hangs keeps its link for a second, so that a short pause costs no connection at all; then the link is
replaced. Attempts are spread with full jitter (Marc Brooker, "Exponential Backoff and Jitter", 2015), and an attempt
waits long for its answer: a hung server accepts connections, and giving each up quickly would be a storm.
"""

from __future__ import annotations

import asyncio
import logging
import random

import hiredis

from limen.core.breaker import Breaker
from limen.errors import StoreError
from limen.stores.valkey.connect import open_link
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.link import Link, Reply
from limen.stores.valkey.script import PING

__all__ = ["Node"]

log = logging.getLogger("limen.store")

MISSES_TO_OPEN = 5
GIVE_UP_S = 1.0
PROBE_PAUSE_S = 0.1
LOGIN_S = (4.0, 8.0, 15.0)
"""How long the first, second, and each further attempt may take."""
BACKOFF_S = (0.1, 1.0)
"""The longest pause before the second attempt, and before any."""
START_S = 1.0


class Node:
    """A server that may come and go.

    Args:
        endpoint: where it is.
        deadline_s: how long a caller waits for a reply.
        on_connect: sent to the server on each new connection, before anything else.
    """

    def __init__(self, endpoint: Endpoint, deadline_s: float, on_connect: bytes) -> None:
        self.endpoint = endpoint
        self.breaker = Breaker(MISSES_TO_OPEN)
        self.connections = 0
        """How many connections were made."""
        self._deadline_s = deadline_s
        self._on_connect = on_connect
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        """The link is lost, or the breaker has opened."""
        self._up = asyncio.Event()
        self._last_error = ""

    async def start(self) -> None:
        """Begin to connect; returns when the node answers, or after a second."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_connected(), name=f"limen link to {self.endpoint}")
            try:
                async with asyncio.timeout(START_S):
                    await self._up.wait()
            except TimeoutError:
                log.warning("%s does not answer yet; deciding without it until it does", self.endpoint)

    async def close(self) -> None:
        """Hang up and stop connecting."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._hang_up()

    def ask(self, command: bytes) -> asyncio.Future[Reply]:
        """Send a command, unless the breaker is open.

        Raises:
            StoreError: nothing was sent.
        """
        link = self._link
        if link is None or self.breaker.is_open:
            raise StoreError(self._last_error or f"{self.endpoint} is not connected", "down")
        return link.ask(command)

    def missed(self) -> None:
        """A caller's deadline has passed."""
        if self._link is not None and not self.breaker.is_open:
            self.breaker.missed(self._link.misses)
            if self.breaker.is_open:
                self._last_error = f"{self.endpoint} does not answer in time"
                log.warning("%s; deciding without it until it does", self._last_error)
                self._wake.set()

    async def _keep_connected(self) -> None:
        attempt = 0
        while True:
            try:
                await self._connect(attempt)
            except StoreError as error:
                self._hang_up()  # it may have logged in and fallen silent then
                self._last_error = str(error)
                log.log(logging.WARNING if attempt == 0 else logging.DEBUG, "%s", error)
                attempt += 1
                await asyncio.sleep(random.uniform(0.02, min(BACKOFF_S[0] * 2**attempt, BACKOFF_S[1])))
                continue
            attempt = 0
            await self._watch()

    async def _connect(self, attempt: int) -> None:
        timeout_s = LOGIN_S[min(attempt, len(LOGIN_S) - 1)]
        self._link = await open_link(self.endpoint, self._deadline_s, timeout_s)
        self.connections += 1
        await self._ask_patiently(self._on_connect)
        log.info("connected to %s", self.endpoint)

    async def _watch(self) -> None:
        """Probe while the breaker is open, rest while it is closed, until the link is gone or given up."""
        link = self._link
        assert link is not None
        link.lost.add_done_callback(lambda _: self._wake.set())
        while not link.lost.done():
            if not self.breaker.is_open:
                self._wake.clear()
                await self._wake.wait()
            elif not await self._probe():
                break
        self._hang_up()

    async def _probe(self) -> bool:
        """Ask whether the node is back: first at all, then in time. False when it should be connected anew."""
        try:
            reply = await self._ask_patiently(PING)
        except StoreError:
            return False
        if isinstance(reply, hiredis.ReplyError):
            self._last_error = f"{self.endpoint} answers: {reply}"
        elif await self._answers_in_time():
            self.breaker.answered()
            self._up.set()
            log.info("%s answers", self.endpoint)
            return True
        await asyncio.sleep(random.uniform(0.5, 1.5) * PROBE_PAUSE_S)
        return True

    async def _answers_in_time(self) -> bool:
        """Whether it keeps the deadline of requests, which does not count the time that this process itself is busy."""
        link = self._link
        try:
            return link is not None and not isinstance(await link.ask(PING), hiredis.ReplyError)
        except StoreError:
            return False

    async def _ask_patiently(self, command: bytes) -> Reply:
        """Ask with the patience of a probe: on an idle deadline of its own, not that of requests."""
        link = self._link
        if link is None:
            raise StoreError(f"{self.endpoint} is not connected", "down")
        return await link.ask(command, GIVE_UP_S)

    def _hang_up(self) -> None:
        self.breaker.lost()
        self._up.clear()
        link, self._link = self._link, None
        if link is not None:
            link.close()
