"""One server as threads see it: a pool of connections, and a breaker before it.

Nothing runs in the background while all is well. Whatever can take longer than a request may wait (a name to look up,
TLS, a login, a probe of a server that hung) is done by a thread that lives for this one attempt; meanwhile
requests wait for a connection within their deadline, or are decided without the store when the breaker is open. (A
TLS login takes 20 ms of this process alone, so no caller with a deadline of 5 ms could ever finish one.)

After a fork the child begins anew: the sockets are the parent's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from time import monotonic

import hiredis

from limen.core.breaker import Breaker
from limen.errors import StoreError
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.replies import classify, store_error
from limen.stores.valkey.sync_attempts import Attempts
from limen.stores.valkey.sync_channel import Channel, Reply
from limen.stores.valkey.sync_connect import log_in, probe
from limen.stores.valkey.sync_fork import begin_anew_after_fork
from limen.stores.valkey.sync_pool import Pool

__all__ = ["DEFAULT_MAX_CONNECTIONS", "SyncNode"]

log = logging.getLogger("limen.store")

DEFAULT_MAX_CONNECTIONS = 16
MISSES_TO_OPEN = 5
LOGIN_S = (4.0, 8.0, 15.0)
"""How long a step of the first, second, and each further login may take: a hung server accepts connections."""
START_S = 1.0
UNUSABLE_WITHIN_S = 1.0
SHORTEST_S = 0.0005
"""What is left for an answer when the deadline is over: a look at what has arrived."""


class SyncNode:
    """A server that may come and go.

    Args:
        where: its name in messages.
        locate: where it is; asked at each attempt to connect, off the path of requests. Raises `StoreError`.
        deadline_s: how long a caller waits for a reply, and for a connection.
        on_connect: sent to the server on each new connection, before anything else.
        max_connections: the most that are open; further threads wait for one.
        must_be_primary: whether a replica is refused at the login. A node of a cluster tells itself where to go.
        troubled: is called whenever the server is lost, and at each attempt that does not find it again.
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
    ) -> None:
        self.where = where
        self.connections = 0
        """How many connections were made."""
        self._locate = locate
        self._deadline_s = deadline_s
        self._on_connect = on_connect
        self._max_connections = max_connections
        self._must_be_primary = must_be_primary
        self._troubled = troubled
        self._closed = False
        self._begin()
        begin_anew_after_fork(self)

    def _begin(self) -> None:
        """Nothing is open, and nothing is known against the server."""
        self.breaker = Breaker(MISSES_TO_OPEN)
        self.breaker.answered()
        self.pool = Pool(self._max_connections)
        self.loads = 0
        """How often the script was sent again."""
        self._loading = Lock()
        self._attempts = Attempts(f"limen connects to {self.where}", self._connect, self._failed, self.pool.wake)
        self._misses = self._unusable = 0
        self._unusable_since = 0.0
        self._last_error = ""

    def begin_after_fork(self) -> None:
        """In a child process: leave the parent's connections to the parent."""
        self.pool.abandon()
        self._begin()

    @property
    def state(self) -> str:
        """`up` or `down`. Asking for it sees to it that it does not stay down for want of calls."""
        if not self.breaker.is_open and len(self.pool):
            return "up"
        if not self._closed:
            self._attempts.run()
        return "down"

    def start(self, until: float = 0.0) -> None:
        """Connect; returns when the server answers or refuses, or after a second.

        Args:
            until: when to return, if that is another time.
        """
        self._closed = False
        channel = self.pool.wait(until or monotonic() + START_S, self._in_vain)
        if channel is None:
            log.warning("%s does not answer yet; deciding without it until it does", self.where)
        else:
            self.give_back(channel)

    def close(self) -> None:
        """Hang up. Calls that are under way end as they would."""
        self._closed = True
        self.pool.close_idle()
        self.pool.wake()

    def ask(self, command: bytes, until: float = 0.0) -> Reply:
        """Send a command and wait for its reply. A reply that is an error is a `hiredis.ReplyError` value.

        Args:
            until: the deadline by the monotonic clock, when it began before this.

        Raises:
            StoreError: `timeout` or `down`: the command may have been executed, unless there was no connection;
                `overload`: all connections were in use for as long as the caller could wait.
        """
        channel, patience_s = self.borrow(until)
        try:
            reply = channel.ask(command, patience_s)
        except StoreError as error:
            self.note(error)
            raise
        finally:
            self.give_back(channel)
        if self._misses:
            self._misses = 0
        return reply

    def ask_second(self, commands: bytes, until: float) -> Reply:
        """Send two commands in one write; the reply to the second.

        Raises:
            StoreError: as `ask`.
        """
        channel, patience_s = self.borrow(until)
        try:
            channel.send(commands, patience_s, replies=2)
            channel.receive()
            return channel.receive()
        except StoreError as error:
            self.note(error)
            raise
        finally:
            self.give_back(channel)

    def borrow(self, until: float = 0.0) -> tuple[Channel, float]:
        """A channel for the caller alone, and how long it may wait for an answer.

        Raises:
            StoreError: there is none to be had.
        """
        now = monotonic()
        channel = None if self.breaker.is_open or self._closed else self.pool.borrow(now)
        if channel is None:
            until = until or now + self._deadline_s
            channel = self._wait_for_one((now + until) / 2)  # the other half is for the answer
        return channel, max(until - monotonic(), SHORTEST_S) if until else self._deadline_s

    def give_back(self, channel: Channel) -> None:
        """The caller is done with it."""
        self.pool.give_back(channel)
        if self._closed:
            self.pool.close_idle()

    def note(self, error: StoreError) -> None:
        """A question failed."""
        if error.kind == "timeout":
            self._misses += 1
            self._open_after(self._misses, str(error))
        elif error.kind == "down":
            self.pool.suspect()
            self._troubled()

    def note_unusable(self, why: str) -> None:
        """The server answers that it cannot decide now: some of that within a second is enough."""
        now = monotonic()
        if now - self._unusable_since > UNUSABLE_WITHIN_S:
            self._unusable_since, self._unusable = now, 0
        self._unusable += 1
        self._open_after(self._unusable, why)

    def _open_after(self, misses: int, why: str) -> None:
        if self.breaker.is_open:
            return
        self.breaker.missed(misses)
        if self.breaker.is_open:
            self._last_error = f"{self.where}: {why}"
            log.warning("%s; deciding without it until it answers in time", self._last_error)
            self.pool.wake()
            self._troubled()

    def lead_elsewhere(self, why: str) -> None:
        """The server is not what it was: connect anew, wherever it is now."""
        self._last_error = why
        self.breaker.lost()
        self.pool.close_idle()
        self._attempts.run()

    def load_once(self, command: bytes, loads: int, until: float) -> None:
        """Send the script, unless that was done since the refused question: many are refused at once.

        Args:
            loads: `loads` when the question was sent.

        Raises:
            StoreError: as `ask`, and when it was refused.
        """
        if self._loading.acquire(timeout=max(0.0, until - monotonic())):
            try:
                if self.loads == loads:
                    self._load(command, until)
            finally:
                self._loading.release()

    def _load(self, command: bytes, until: float) -> None:
        reply = self.ask(command, until)
        if isinstance(reply, hiredis.ReplyError):
            raise store_error(classify(str(reply)), self.where)
        self.loads += 1

    def _wait_for_one(self, until: float) -> Channel:
        channel = self.pool.wait(until, self._in_vain)
        if channel is not None:
            return channel
        if self._in_vain():
            raise StoreError(self._last_error or f"{self.where} is not connected", "down")
        if len(self.pool):  # the server answers others meanwhile: this process is the one that is late
            raise StoreError(f"all {len(self.pool)} connections to {self.where} are in use", "overload")
        error = StoreError(f"no connection to {self.where} within the deadline", "timeout")
        self.note(error)
        raise error

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

    def _make_available(self, pool: Pool) -> None:
        channel = (pool.borrow(monotonic()) if self.breaker.is_open else None) or self._opened(pool)
        try:
            probe(channel, self.where, self._deadline_s)
        except StoreError as error:
            if error.kind != "timeout":  # one late answer says nothing about the connections that are in use
                self.breaker.lost()
            raise
        finally:
            self.give_back(channel)
        if self.breaker.is_open or not self.connections:
            log.info("%s answers", self.where)
        self._misses = self._unusable = 0
        self.breaker.answered()

    def _opened(self, pool: Pool) -> Channel:
        timeout_s = LOGIN_S[min(self._attempts.failures, len(LOGIN_S) - 1)]
        channel = log_in(self._locate(), self._deadline_s, timeout_s, self._on_connect, self._must_be_primary)
        pool.add(channel)
        self.connections += 1
        return channel

    def _failed(self, error: StoreError, failures: int) -> None:
        if not len(self.pool):
            self.breaker.lost()
        self._last_error = str(error)
        log.log(logging.DEBUG if failures else logging.WARNING, "%s", error)
        self._troubled()
