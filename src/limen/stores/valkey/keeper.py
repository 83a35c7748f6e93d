"""Keeps a connection to one server, as servers come and go, and knows whether it can decide.

A server that hangs keeps its link for a second, so that a short pause costs no connection at all; then the link is
replaced. Attempts are spread, no more than five in any second, and an attempt waits long for its answer: a hung server
accepts connections, and giving each up quickly would be a storm. Nor are there more than ten probes in a second.

A link on which nothing is heard is asked something now and then, so that a server that vanished is missed before
somebody needs it.

Where the server is gets found out anew for each attempt. One that turns out to be a replica is left again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from limen.core.breaker import Breaker
from limen.core.delays import Delays
from limen.errors import StoreError
from limen.stores.valkey.arriving import GIVE_UP_S, Locate, Place, arrive
from limen.stores.valkey.complaints import Complaints
from limen.stores.valkey.doubt import Doubt
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.link import Link
from limen.stores.valkey.mark_looks import MarkLooks
from limen.stores.valkey.memory_loss import Marker
from limen.stores.valkey.probing import greet, probed
from limen.stores.valkey.script import PING
from limen.stores.valkey.waiting import Pace, about, pause_s, within

__all__ = ["Keeper"]

log = logging.getLogger("limen.store")

MISSES_TO_OPEN = 20
"""So many late answers in a row leave no doubt; fewer may come of a moment in which the server paused."""
PROBES_IN_A_SECOND = 10
PROBE_PAUSE_S = (0.02, 0.1)
"""The shortest and the longest time from a probe that was not answered in time to the next."""
ATTEMPTS_IN_A_SECOND = 5
RAMP_S = 0.05
"""The longest pause before a connection that was good and is gone is made anew: many lose theirs at the same moment."""
IDLE_S = 0.5
"""About how long nothing is heard before a server is asked whether it is there."""
SHORTEST_PATIENCE_S = 0.5
LOOK_AGAIN_S = 2.0
SHORT_LIFE_S = 0.5
"""A connection that ends sooner counts as an attempt that failed, so that the next ones are spread."""


def _nothing() -> None:
    """Nobody wants to know."""


class Keeper:
    """The connection to a server that may come and go, on the running event loop.

    Args:
        place: where it is, or how to find that out.
        deadline_s: how long a caller waits for a reply.
        load: sent to the server on each new connection, before anything else.
        probe: a question that a server refuses while it cannot decide.
        on_loss: called when it stops to decide.
        on_return: called before it decides again after its connection was lost.
        marker: sees whether it has lost its memory.
        delays: told how long it takes to answer.
    """

    def __init__(
        self,
        place: Endpoint | Locate,
        deadline_s: float,
        load: bytes,
        *,
        probe: bytes = PING,
        on_loss: Callable[[], None] = _nothing,
        on_return: Callable[[], None] = _nothing,
        marker: Marker | None = None,
        delays: dict[str, Delays] | None = None,
    ) -> None:
        self._place = Place(place)
        self.breaker = Breaker(MISSES_TO_OPEN)
        self.connections = 0
        """How many connections were made."""
        self.loop = asyncio.get_running_loop()
        self._deadline_s = deadline_s
        self._load = load
        self._question = probe
        self._on_loss = on_loss
        self._on_return = on_return
        self._mark = MarkLooks(marker, self.loop)
        self._delays = {} if delays is None else delays
        self._decided = self._returns = False
        """Whether this link has decided, and whether one that had was lost since."""
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        """The link is lost, or the breaker has opened."""
        self._up = asyncio.Event()
        self._probes, self._attempts = Pace(PROBES_IN_A_SECOND), Pace(ATTEMPTS_IN_A_SECOND)
        self._doubt = Doubt(self.loop, deadline_s, probe, self._confirmed)
        self._complaints = Complaints()
        self._tried = asyncio.Event()
        """It is clear whether the first attempt succeeded."""
        self._stale: StoreError | None = None
        """Why the link leads to the wrong place."""
        self._trouble = self._down("is not connected")
        """Why it cannot decide."""

    @property
    def endpoint(self) -> Endpoint:
        """Where it is, or was last."""
        return self._place.endpoint

    @property
    def shard(self) -> str:
        """`host:port` of it; empty while nobody knows."""
        return self._place.shard

    @property
    def state(self) -> str:
        return "down" if self.breaker.is_open else "up"

    @property
    def shards(self) -> dict[str, str]:
        """Its state by its name, if that is known."""
        return {self.shard: self.state} if self.shard else {}

    def connect(self) -> None:
        """Begin to connect, on the running event loop."""
        if self._task is None:
            self._wake, self._up, self._tried = asyncio.Event(), asyncio.Event(), asyncio.Event()
            self._task = asyncio.create_task(self._keep_connected(), name=f"limen link to {self.endpoint}")

    async def ready(self, patience_s: float) -> bool:
        """Whether it can decide, now or before the patience ends."""
        return await within(patience_s, self._up)

    async def close(self) -> None:
        """Hang up and stop connecting."""
        task, self._task = self._task, None
        self._doubt.end()
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _down(self, what: str) -> StoreError:
        return StoreError(f"{self.endpoint} {what}", "down", self.shard)

    def _open_breaker(self, why: StoreError) -> None:
        self._trouble = why
        self.breaker.lost()
        self._up.clear()
        self._complaints.lost(why)
        self._wake.set()
        self._on_loss()

    def _revive(self) -> None:
        """Go on, if somebody has ended the task that keeps the connection: nothing else would ever find the server."""
        if self._task is not None and self._task.done():
            self._task = None
            self.connect()

    async def _keep_connected(self) -> None:
        failures = 0
        try:
            while True:
                await asyncio.sleep(self._attempts.wait_s(self.loop.time()))
                trouble = await self._connected(failures)
                failures = 0 if trouble is None else failures + 1
                await asyncio.sleep(pause_s(failures) if failures else random.uniform(0, RAMP_S))
        finally:
            self._hang_up()  # also when the event loop ends and nobody has closed us

    async def _connected(self, failures: int) -> StoreError | None:
        """Connect, and stay so until the connection is lost; why that failed, if it did."""
        trouble = None
        try:
            await self._connect(failures)
            await self._watch()
        except StoreError as error:
            trouble = error
        except Exception as error:
            log.exception("connecting to %s failed in a way that nobody thought of", self.endpoint)
            trouble = self._down(f"is not connected: {error!r}")
        if trouble is not None:
            self._failed(trouble, failures)
        return trouble

    def _failed(self, error: StoreError, failures: int) -> None:
        self._hang_up()  # it may have logged in and fallen silent then
        self._trouble = error
        self._tried.set()
        if failures:
            self._complaints.trouble(error)
        else:
            log.warning("%s", error)

    async def _connect(self, failures: int) -> None:
        endpoint, timeout_s = await self._place.find(), self._place.patience_s(failures)
        self._link, loaded = await arrive(endpoint, self._deadline_s, timeout_s, self._load)
        if self.connections:
            self._link.in_flight.begin_gently()
        self._link.delays = self._delays.setdefault(self.shard, Delays())
        self._mark.connected()
        self.connections += 1
        self._loaded(loaded)
        log.info("connected to %s", endpoint)

    async def _watch(self) -> None:
        """Probe while the breaker is open, rest while it is closed, until the link is gone or given up.

        Raises:
            StoreError: the link was dropped because it leads to the wrong place, or it was cut right away.
        """
        link, began = self._link, self.loop.time()
        assert link is not None
        link.on_miss = self._missed
        link.lost.add_done_callback(lambda _: self._wake.set())
        while not link.lost.done():
            self._wake.clear()
            if not self.breaker.is_open:
                await self._rest(link)
            elif not await self._probe(link):
                break
        self._hang_up()
        if self._stale is not None:
            stale, self._stale = self._stale, None
            raise stale
        if self.loop.time() - began < SHORT_LIFE_S:
            raise self._down("was lost right after the login")

    async def _rest(self, link: Link) -> None:
        """Until something happens. Where the right server can change, that is looked at now and then: one that was
        replaced may not know it for ten seconds, and takes writes until it does."""
        look_at = self.loop.time() + about(LOOK_AGAIN_S)
        while not await within(about(IDLE_S), self._wake):
            greet(link, self.endpoint)
            await self._mark.look_again(link, self.shard)
            if self._place.can_change and self.loop.time() > look_at:
                if await self._place.has_changed():
                    self._stale = StoreError(f"{self.endpoint} was replaced by another server", "read_only", self.shard)
                    link.close()
                look_at = self.loop.time() + about(LOOK_AGAIN_S)

    async def _probe(self, link: Link) -> bool:
        """Ask whether the server is back. False when it should be connected anew."""
        if await within(self._probes.wait_s(self.loop.time()), self._wake):
            return True
        patience_s = max(GIVE_UP_S - link.silent_s, SHORTEST_PATIENCE_S)
        try:
            trouble = await probed(link, self._question, self.endpoint, patience_s)
            if trouble is None:
                await self._mark.look(link, self.shard, GIVE_UP_S)
        except StoreError:
            return False
        if trouble is None:
            self._recovered()
            return True
        self._trouble = trouble
        self._complaints.trouble(trouble)
        self._tried.set()
        await within(random.uniform(*PROBE_PAUSE_S), self._wake)
        return True

    def look_at_mark_soon(self) -> None:
        """What it keeps has changed."""
        self._mark.look_soon()

    def _recovered(self) -> None:
        if self._returns:
            self._returns = False
            self._on_return()
        self._decided = True
        self._complaints.answers()
        self.breaker.answered()
        self._up.set()
        self._tried.set()
        log.info("%s answers", self.endpoint)

    def _missed(self) -> None:
        """Deadlines have passed."""
        link = self._link
        if link is None or self.breaker.is_open:
            return
        self.breaker.missed(link.late)
        if self.breaker.is_open:
            self._open_breaker(self._down("does not answer in time"))
        else:
            self._doubt.begin(link)

    def _confirmed(self, link: Link) -> None:
        """It was late, and nothing has come in time since."""
        if self._link is link and not self.breaker.is_open:
            self._open_breaker(self._down("does not answer in time"))

    def _loaded(self, reply: object) -> None:
        """The server has answered to the script."""

    def _hang_up(self) -> None:
        was_up = not self.breaker.is_open
        self.breaker.lost()
        self._up.clear()
        self._returns, self._decided = self._returns or self._decided, False
        link, self._link = self._link, None
        if link is not None:
            self._trouble = self._down("is not connected")
            link.close()
        if was_up:
            self._on_loss()
