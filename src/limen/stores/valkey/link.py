"""One connection that everybody shares: many questions in flight, answered in order.

A pool gives each command a connection for itself, and a timed-out command costs its connection. Here the bytes of all
callers go down one pipe; what is written in one turn of the event loop leaves in one write. The rules:

- A question, once written, keeps its place in the queue until its reply arrives. A caller that gave up (deadline or
  cancellation) leaves its place behind, and the late reply is thrown away there. So no reply reaches the wrong caller.
- The deadline belongs to the caller's future, never to the command. One timer watches the oldest question.
- Nothing is ever sent twice: a question that may have left may have been answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice

import hiredis

from limen.errors import StoreError

__all__ = ["Link"]

MAX_IN_FLIGHT = 8_192
LATE_BY_S = 0.002
"""A timer that fires later than this says that this process was busy, not that the store was slow."""

Reply = object
Waiting = tuple["asyncio.Future[Reply]", float]


class Link(asyncio.Protocol):
    """A connected, logged-in connection.

    Args:
        loop: the event loop that it lives on.
        deadline_s: how long a caller waits for its reply.

    `lost` is resolved when the connection is gone. `misses` counts the deadlines since the last reply.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, deadline_s: float) -> None:
        self.lost: asyncio.Future[None] = loop.create_future()
        self.misses = 0
        self._loop = loop
        self._deadline_s = deadline_s
        self._transport: asyncio.Transport | None = None
        self._owner: object = None
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._waiting: deque[Waiting] = deque()
        self._given_up = 0
        self._outbox: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._second_chance = False

    def adopt(self, transport: asyncio.Transport, owner: object = None) -> None:
        """Take over a transport on which the login is done. `owner` is kept, if it would hang up when it is dropped."""
        self._owner = owner
        self._transport = transport
        transport.set_protocol(self)
        if not transport.is_reading():
            transport.resume_reading()

    def ask(self, command: bytes, patience_s: float | None = None) -> asyncio.Future[Reply]:
        """Send a command; the future of its reply. A reply that is an error is a `hiredis.ReplyError` value.

        The future fails with `StoreError` (kind `timeout`) at the deadline and (kind `down`) when the connection is
        lost. `patience_s` replaces the deadline; nothing may be asked behind such a question until it is answered,
        because deadlines are watched in the order of the queue.

        Raises:
            StoreError: the connection is gone (`down`) or too much is in flight (`overload`); nothing was sent.
        """
        transport = self._transport
        if transport is None:
            raise StoreError("the connection to the store is lost", "down")
        waiting = self._waiting
        if len(waiting) >= MAX_IN_FLIGHT:
            raise StoreError(f"{MAX_IN_FLIGHT} questions to the store are in flight", "overload")
        future: asyncio.Future[Reply] = self._loop.create_future()
        if not waiting:
            transport.write(command)
        else:
            if not self._outbox:
                self._loop.call_soon(self._flush)
            self._outbox.append(command)
        waiting.append((future, self._loop.time() + (patience_s or self._deadline_s)))
        if self._timer is None:
            self._timer = self._loop.call_at(waiting[-1][1], self._expire)
        return future

    def close(self) -> None:
        """Hang up. Callers that still wait get a `StoreError`."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        gets = self._reader.gets
        waiting = self._waiting
        try:
            while (reply := gets()) is not _NOTHING:
                future, _ = waiting.popleft()
                if self._given_up:
                    self._given_up -= 1
                if not future.done():
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError):
            self.close()  # not a server that we understand: whoever waits is told by connection_lost
        self.misses = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(StoreError("the connection to the store was lost", "down"))
        self._waiting.clear()
        self._outbox.clear()
        if not self.lost.done():
            self.lost.set_result(None)

    def _flush(self) -> None:
        if self._transport is not None and self._outbox:
            self._transport.write(b"".join(self._outbox))
            self._outbox.clear()

    def _expire(self) -> None:
        """Tell the callers whose deadline has passed, and watch the next one."""
        self._timer = None
        if not self._waiting:
            return
        now = self._loop.time()
        if self._was_busy(now):
            self._timer = self._loop.call_later(0.001, self._expire)
            return
        for future, due in islice(self._waiting, self._given_up, None):
            if due > now:
                self._timer = self._loop.call_at(due, self._expire)
                return
            self._given_up += 1
            if not future.done():
                self.misses += 1
                future.set_exception(
                    StoreError(f"no answer from the store within {self._deadline_s * 1000:g} ms", "timeout")
                )

    def _was_busy(self, now: float) -> bool:
        """Whether this process came late to its own timer: replies that are there already get a chance to be read."""
        oldest = next((due for _, due in islice(self._waiting, self._given_up, None)), now)
        self._second_chance = not self._second_chance and now - oldest > LATE_BY_S
        return self._second_chance


_NOTHING = object()
