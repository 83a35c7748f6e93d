"""Keeps connections to one server, as servers come and go, and knows whether it can decide.

Nothing runs in the background while all is well. Whatever can take longer than a request may wait (a name to look up,
TLS, a login, a probe of a server that hung) is done by a thread that lives for this one attempt; meanwhile requests
wait for a connection within their deadline, or are decided without the store when the breaker is open. (A TLS login
takes 20 ms of this process alone, so no caller with a deadline of 5 ms could ever finish one.) Only the first ones of
a process wait longer, up to a second: until it is known whether there is a server.

After a fork the child begins anew: the sockets are the parent's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from time import monotonic, sleep

from limen.core.breaker import DOUBT_S, Breaker
from limen.core.delays import Delays
from limen.errors import StoreError
from limen.stores.fork import begin_anew_after_fork
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.memory_loss import FIRST_LOOK_S, LOOK_S, Marker
from limen.stores.valkey.script import PING
from limen.stores.valkey.sync_attempts import Attempts
from limen.stores.valkey.sync_channel import Channel
from limen.stores.valkey.sync_connect import GIVE_UP_S, log_in, probe
from limen.stores.valkey.sync_pool import Pool

__all__ = ["DEFAULT_MAX_CONNECTIONS", "START_S", "SyncKeeper"]

log = logging.getLogger("limen.store")

DEFAULT_MAX_CONNECTIONS = 16
MISSES_TO_OPEN = 5
LOGIN_S = (4.0, 8.0, 15.0)
"""How long a step of the first, second, and each further login may take: a hung server accepts connections."""
START_S = 1.0


class SyncKeeper:
    """The connections to a server that may come and go.

    Args:
        where: its name in messages.
        locate: where it is; asked at each attempt to connect, off the path of requests. Raises `StoreError`.
        deadline_s: how long a caller waits for a reply, and for a connection.
        on_connect: sent to the server on each new connection, before anything else.
        max_connections: the most that are open; further threads wait for one.
        must_be_primary: whether a replica is refused at the login. A node of a cluster tells itself where to go.
        troubled: is called whenever the server is lost, and at each attempt that does not find it again.
        returned: is called before a new connection is used after an earlier one was lost.
        marker: sees whether it has lost its memory.
        delays: told how long it takes to answer.
    """

    def __init__(
        self,
        where: str,
        locate: Callable[[], Endpoint],
        deadline_s: float,
        on_connect: bytes,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        must_be_primary: bool = True,
        troubled: Callable[[], None] = lambda: None,
        returned: Callable[[], None] = lambda: None,
        marker: Marker | None = None,
        delays: dict[str, Delays] | None = None,
    ) -> None:
        self.where = where
        self.endpoint: Endpoint | None = None
        """Where it was found last."""
        self.connections = 0
        """How many connections were made."""
        self._locate = locate
        self._deadline_s = deadline_s
        self._on_connect = on_connect
        self._max_connections = max_connections
        self._must_be_primary = must_be_primary
        self._troubled = troubled
        self._returned = returned
        self._marker = marker
        self._delays = {} if delays is None else delays
        self._delay = Delays()
        """Of the server where it was found last."""
        self._closed = False
        self._begin()
        begin_anew_after_fork(self)

    def _begin(self) -> None:
        """Nothing is open, and nothing is known against the server."""
        self.breaker = Breaker(MISSES_TO_OPEN)
        self.breaker.answered()
        self.pool = Pool(self._max_connections)
        self._attempts = Attempts(f"limen connects to {self.where}", self._connect, self._failed, self._attempted)
        self._doubts = Attempts(f"limen doubts {self.where}", self._settle_doubt, self._doubted, lambda: None)
        self._marks = Attempts(f"limen looks at {self.where}", self._look_again_at_mark, _not_told, lambda: None)
        self._mark_at = float("inf")
        """When its mark is looked at again."""
        self._is_known = False
        """Whether an attempt has shown if the server is there."""
        self._first_until = 0.0
        """How long the first requests wait for that."""
        self._loading = Lock()
        self._decided = False
        self._losses_told = 0
        """How many lost connections there were when they were last told of."""
        self._misses = self._unusable = 0
        self._unusable_since = 0.0
        self._last_error = ""

    def begin_after_fork(self) -> None:
        """In a child process: leave the parent's connections to the parent."""
        self.pool.abandon()
        self._begin()

    @property
    def shard(self) -> str:
        """`host:port` of it; empty while nobody knows."""
        return "" if self.endpoint is None else str(self.endpoint.address)

    @property
    def state(self) -> str:
        """`up` or `down`. Asking for it sees to it that it does not stay down for want of calls."""
        self.pool.sweep()
        if not self.breaker.is_open and len(self.pool):
            return "up"
        if not self._closed:
            self._attempts.run()
        return "down"

    @property
    def shards(self) -> dict[str, str]:
        """Its state by its name, if that is known."""
        state = self.state
        return {self.shard: state} if self.shard else {}

    def start(self, until: float = 0.0) -> None:
        """Connect; returns when the server answers or refuses, or after a second.

        Args:
            until: when to return, if that is another time.
        """
        self._closed = False
        self._first_until = until = until or monotonic() + START_S
        channel = self.pool.wait(until, self._in_vain)
        if channel is None:
            log.warning("%s does not answer yet; deciding without it until it does", self.where)
        else:
            self.give_back(channel)

    def close(self) -> None:
        """Hang up. Calls that are under way end as they would."""
        self._closed = True
        self.pool.close_idle()
        self.pool.wake()

    def give_back(self, channel: Channel) -> None:
        """The caller is done with it."""
        self.pool.give_back(channel)
        if self._closed:
            self.pool.close_idle()

    def _until_known(self, now: float) -> float:
        """Until when a request waits for the first connection, if nothing is known yet; else 0."""
        if self._is_known:
            return 0.0
        self._first_until = self._first_until or now + START_S
        return self._first_until

    def _settle_doubt(self) -> None:
        """After a late answer: if none comes in time for a moment, see whether that is for want of questions.

        Raises:
            StoreError: it is not.
        """
        sleep(DOUBT_S / 2)
        if not self._misses or self.breaker.is_open or self._closed:
            return
        pool = self.pool
        channel = pool.borrow(monotonic())
        if channel is None and pool.is_full:
            return  # so many ask that one of them will tell
        channel = channel or self._opened(pool, max(DOUBT_S / 2, self._deadline_s))
        try:
            channel.ask(PING, self._deadline_s)
            self._misses = 0
        finally:
            self.give_back(channel)

    def _doubted(self, error: StoreError, failures: int) -> None:
        self._open_after(MISSES_TO_OPEN, str(error))
        self._attempts.run()

    def _open_after(self, misses: int, why: str) -> None:
        """Open the breaker if that is enough of them."""
        if self.breaker.is_open:
            return
        self.breaker.missed(misses)
        if self.breaker.is_open:
            self._last_error = f"{self.where}: {why}"
            log.warning("%s; deciding without it until it answers in time", self._last_error)
            self.pool.losses += 1
            self.pool.wake()
            self._troubled()

    def _in_vain(self) -> bool:
        """Whether there is no use in waiting for a connection; if there is, somebody sees to it."""
        if not self._closed and not self.pool.is_full:
            self._attempts.run()
        return self._closed or self.breaker.is_open

    def _connect(self) -> None:
        """Open connections until nobody waits for one; while the breaker is open, see whether it can be closed."""
        pool = self.pool
        self._make_available(pool)
        while pool.waiting and not pool.is_full and not self._closed:
            self._make_available(pool)

    def _attempted(self) -> None:
        self._is_known = True
        self.pool.wake()

    def _make_available(self, pool: Pool) -> None:
        kept = pool.borrow(monotonic()) if self.breaker.is_open else None
        channel = kept or self._opened(pool)
        try:
            probe(channel, self.where, self._deadline_s, self.shard)
            if kept is None:
                self._tell_of_losses(channel)
            self._answers()
        except StoreError as error:
            if error.kind != "timeout":  # one late answer says nothing about the connections that are in use
                self.breaker.lost()
            raise
        finally:
            self.give_back(channel)

    def _tell_of_losses(self, channel: Channel) -> None:
        """Before a new connection is used: what was known of the server may not be so any more."""
        losses, told = self.pool.losses, self._losses_told
        if losses != told or not self._decided:
            if self._marker is not None:
                self._marker.connected()
            self._look_at_mark(channel)
            if self._decided:
                self._returned()
        self._losses_told, self._decided = losses, True

    def _look_at_mark(self, channel: Channel) -> None:
        """See whether the server has lost its memory since it was known.

        Raises:
            StoreError: it is silent.
        """
        if self._marker is not None:
            for each in self._marker.looks(self.shard):
                self._marker.found(self.shard, each, channel.ask(each.command, GIVE_UP_S))
            self._mark_at = monotonic() + FIRST_LOOK_S

    def _look_again_at_mark(self) -> None:
        channel = self.pool.borrow(monotonic())
        if channel is not None:
            try:
                self._look_at_mark(channel)
            finally:
                self.give_back(channel)
        self._mark_at = monotonic() + LOOK_S

    def _answers(self) -> None:
        if self.breaker.is_open or self.connections == 1:
            log.info("%s answers", self.where)
        self._misses = self._unusable = 0
        self.breaker.answered()

    def _opened(self, pool: Pool, timeout_s: float = 0.0) -> Channel:
        timeout_s = timeout_s or LOGIN_S[min(self._attempts.failures, len(LOGIN_S) - 1)]
        self.endpoint = self._locate()
        channel = log_in(self.endpoint, self._deadline_s, timeout_s, self._on_connect, self._must_be_primary)
        self._delay = self._delays.setdefault(self.shard, self._delay)
        pool.add(channel)
        self.connections += 1
        return channel

    def _failed(self, error: StoreError, failures: int) -> None:
        if not len(self.pool):
            self.breaker.lost()
        self._last_error = str(error)
        log.log(logging.DEBUG if failures else logging.WARNING, "%s", error)
        self._troubled()


def _not_told(error: StoreError, failures: int) -> None:
    """It is looked again, and whoever decides meanwhile finds out what is wrong."""
