"""One connection that everybody shares: many questions in flight, answered in order.

A pool gives each command a connection for itself, and a timed-out command costs its connection. Here the bytes of all
callers go down one pipe; what is asked in one turn of the event loop leaves in a few writes. The rules:

- A question, once written, keeps its place in the queue until its reply arrives. A caller that gave up (deadline or
  cancellation) leaves its place behind, and the late reply is thrown away there. So no reply reaches the wrong caller.
- The deadline belongs to the caller's future, never to the command. One timer watches the oldest write.
- Nothing is ever sent twice: a question that may have left may have been answered.
- No more is in flight than the server answers within half a deadline (`core.in_flight`); the rest is told so at once.
- Only the store can be late. The deadline counts from the write, and nobody is given up before the event loop has had
  an undisturbed look at the socket after it: a busy process has its replies waiting there. One that is never idle
  looks once and gives up at twice the deadline, for the store may hang meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice

import hiredis

from limen.core.delays import Delays
from limen.core.in_flight import CEILING, InFlight
from limen.errors import StoreError

__all__ = ["Link", "Reply"]

FULL_OUTBOX = 16
"""As many questions leave at once, so that the server works on them while this process still asks the others."""
QUICK = 8
"""A reply within that part of the deadline did not wait for others."""
CLOCK_S = 0.000_001
LOOK_S = 0.001
"""The last part of the deadline: replies that are there get a chance to be read before callers are given up."""

Reply = object


class Write:
    """Questions that left together."""

    __slots__ = ("ahead", "due", "looked_at", "open", "patience_s", "size")

    def __init__(self, patience_s: float, ahead: int) -> None:
        self.ahead = ahead
        """How many questions were in flight before them."""
        self.size = self.open = 1
        """How many they are, and how many of them are not answered."""
        self.patience_s = patience_s
        self.due = 0.0
        """When their callers are given up."""
        self.looked_at = False
        """Whether it was seen that they are half a deadline old."""


class Link(asyncio.Protocol):
    """A connected, logged-in connection.

    Args:
        loop: the event loop that it lives on.
        deadline_s: how long a caller waits for its reply.
        shard: which server it leads to, `host:port`.

    `lost` is resolved when the connection is gone. `misses` counts the deadlines since the last reply, `late` those
    since the last reply that came in time, and `on_miss` is called when there are more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, deadline_s: float, shard: str = "") -> None:
        self.lost: asyncio.Future[None] = loop.create_future()
        self.misses = self.late = 0
        self.in_flight = InFlight()
        self.delays: Delays | None = None
        """Told how long replies take: the oldest of each batch."""
        self.on_miss: Callable[[], None] = _nothing
        self._loop = loop
        self._deadline_s = deadline_s
        self._shard = shard
        self._transport: asyncio.Transport | None = None
        self._owner: object = None
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self._writes: deque[Write] = deque()
        self._outbox: list[bytes] = []
        self._given_up = 0
        """How many writes at the head of the queue nobody waits for any more."""
        self._timer: asyncio.TimerHandle | None = None
        self._looked = False

    def adopt(self, transport: asyncio.Transport, owner: object = None) -> None:
        """Take over a transport on which the login is done. `owner` is kept, if it would hang up when it is dropped."""
        self._owner = owner
        self._transport = transport
        transport.set_protocol(self)
        if not transport.is_reading():
            transport.resume_reading()

    def ask(self, command: bytes, patience_s: float | None = None, *, urgent: bool = False) -> asyncio.Future[Reply]:
        """Send a command; the future of its reply. A reply that is an error is a `hiredis.ReplyError` value.

        The future fails with `StoreError` (kind `timeout`) at the deadline and (kind `down`) when the connection is
        lost. `patience_s` replaces the deadline; nothing may be asked behind such a question until it is answered,
        because deadlines are watched in the order of the queue. `urgent` lets it in whatever is in flight.

        Raises:
            StoreError: the connection is gone (`down`) or too much is in flight (`overload`); nothing was sent.
        """
        if self._transport is None:
            raise StoreError("the connection to the store is lost", "down", self._shard)
        waiting = self._waiting
        if len(waiting) >= self.in_flight.most and not urgent:
            raise StoreError(f"{len(waiting)} questions to the store are in flight", "overload", self._shard)
        future: asyncio.Future[Reply] = self._loop.create_future()
        outbox = self._outbox
        if outbox:
            write = self._writes[-1]
            write.open += 1
            write.size += 1
            outbox.append(command)
            if len(outbox) >= FULL_OUTBOX:
                self._flush()
        else:
            write = Write(patience_s or self._deadline_s, len(waiting))
            self._writes.append(write)
            outbox.append(command)
            if waiting:
                self._loop.call_soon(self._flush)
            else:
                self._flush()
        waiting.append(future)
        return future

    @property
    def silent_s(self) -> float:
        """How long the oldest question has waited for its reply; 0 when there is none."""
        write = self._writes[0] if self._writes else None
        return max(0.0, self._loop.time() - write.due + write.patience_s) if write and write.due else 0.0

    def close(self) -> None:
        """Hang up. Callers that still wait get a `StoreError`."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        gets = self._reader.gets
        waiting, before, in_time = self._waiting, len(self._waiting), False
        oldest = self._writes[0] if before else None
        try:
            while (reply := gets()) is not _NOTHING:
                future = waiting.popleft()
                write = self._writes[0]
                write.open -= 1
                if not write.open:
                    self._answered()
                if not future.done():
                    future.set_result(reply)
                    in_time = True
        except (hiredis.ProtocolError, IndexError):
            self.close()  # not a server that we understand: whoever waits is told by connection_lost
        self.misses = 0
        if in_time:
            self.late = 0
        if oldest is not None and not oldest.open:
            delay_s = self._loop.time() - oldest.due + oldest.patience_s
            if self.in_flight.most < CEILING:
                self.in_flight.answered(before - len(waiting), quickly=delay_s < self._deadline_s / QUICK)
            if self.delays is not None:
                self.delays.add(delay_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        for future in self._waiting:
            if not future.done():
                future.set_exception(StoreError("the connection to the store was lost", "down", self._shard))
        self._waiting.clear()
        self._writes.clear()
        self._outbox.clear()
        if not self.lost.done():
            self.lost.set_result(None)

    def _answered(self) -> None:
        """Every question of the oldest write has its reply."""
        self._writes.popleft()
        if self._given_up:
            self._given_up -= 1

    def _flush(self) -> None:
        """Send what was asked since the last write; the deadline of its callers begins."""
        if self._transport is None or not self._outbox:
            return
        write = self._writes[-1]
        write.due = self._loop.time() + write.patience_s
        self._transport.write(b"".join(self._outbox))
        self._outbox.clear()
        if self._timer is None or write.due < self._timer.when():
            self._watch(write)

    def _watch(self, write: Write) -> None:
        """Look after this write next. A patient one that was watched before it comes after it again."""
        if self._timer is not None:
            self._timer.cancel()
        self._looked = False
        self._look_at(write.due - (LOOK_S if write.looked_at else write.patience_s / 2))

    def _look_at(self, moment: float) -> None:
        self._timer = self._loop.call_at(moment, self._on_timer, moment)

    def _on_timer(self, meant_for: float) -> None:
        """See what is half a deadline old, and give up what is due: after a look at the socket that nothing held up, if
        that is to be had."""
        self._timer = None
        now = self._loop.time()
        in_peace = now - meant_for < LOOK_S
        while (write := next(islice(self._writes, self._given_up, None), None)) is not None and write.due:
            due = write.due - (LOOK_S if write.looked_at else write.patience_s / 2)
            if due > now:
                self._watch(write)
                return
            patience_s = write.patience_s if write.looked_at else 0.0
            if not self._looked or not (in_peace or now > write.due + patience_s):
                self._looked = True
                self._look_at(now + LOOK_S)
                return
            if not write.looked_at:
                self._see_age(write, now)
            elif now < write.due - CLOCK_S:
                self._look_at(write.due)
                return
            else:
                self._give_up(write)

    def _see_age(self, write: Write, now: float) -> None:
        """A write is half a deadline old: no more may be in flight than would have been answered by now."""
        write.looked_at = True
        if write.patience_s == self._deadline_s:
            before = sum(earlier.open for earlier in islice(self._writes, self._given_up))
            answered = write.ahead - before + write.size - write.open
            age_s = now - write.due + write.patience_s
            self.in_flight.too_slow(answered, age_s, write.patience_s / 2)

    def _give_up(self, write: Write) -> None:
        """Tell the callers of a write that it takes too long."""
        before = sum(earlier.open for earlier in islice(self._writes, self._given_up))
        self._given_up += 1
        message = f"no answer from the store within {write.patience_s * 1000:g} ms"
        for future in islice(self._waiting, before, before + write.open):
            if not future.done():
                self.misses += 1
                self.late += 1
                future.set_exception(StoreError(message, "timeout", self._shard))
        self.on_miss()


def _nothing() -> None:
    """Nobody counts."""


_NOTHING = object()
