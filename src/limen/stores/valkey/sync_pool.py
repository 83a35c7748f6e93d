"""Connections that threads borrow: one for each thread that is inside a call, never more than the bound.

Borrowing and giving back are one list operation each, which is atomic, so the usual way takes no lock. The last one
that came back goes first: as few stay in use as there are calls at a time.

Whoever finds none stands in a queue. A connection that comes back is handed to the first there, else the busiest
thread would take it again and again before another one has woken up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from time import monotonic
from weakref import WeakSet

from limen.stores.valkey.sync_channel import Channel

__all__ = ["Pool"]

IDLE_S = 1.0
"""A channel that nobody used for so long is looked at before it is used: servers and firewalls hang up on the idle."""


class Waiter:
    """A thread that waits for a channel."""

    __slots__ = ("called", "channel")

    def __init__(self) -> None:
        self.called = Lock()
        """Held until there is something to see."""
        self.called.acquire()
        self.channel: Channel | None = None


class Pool:
    """Open channels to one server.

    Args:
        bound: the most that are open.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._idle: list[Channel] = []
        self._open: WeakSet[Channel] = WeakSet()  # weak: what a caller loses when it is interrupted makes room
        self._queue: deque[Waiter] = deque()
        self._queueing = Lock()
        self._suspect_before = 0.0
        self.losses = 0
        """How often the server was seen to be lost."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def waiting(self) -> int:
        """How many threads wait for a channel."""
        return len(self._queue)

    @property
    def is_full(self) -> bool:
        return len(self._open) >= self._bound

    def add(self, channel: Channel) -> None:
        """There is another channel; whoever added it has borrowed it."""
        self._open.add(channel)

    def borrow(self, now: float) -> Channel | None:
        """A channel for the caller alone, if one is idle."""
        try:
            while True:
                channel = self._idle.pop()
                used_at, channel.used_at = channel.used_at, now
                if (now - used_at < IDLE_S and used_at >= self._suspect_before) or channel.is_quiet():
                    return channel
                self.losses += 1
                self.drop(channel)
        except IndexError:
            return None

    def wait(self, until: float, in_vain: Callable[[], bool]) -> Channel | None:
        """The next channel that comes back; None at the deadline, and as soon as waiting is `in_vain`."""
        channel = None
        while channel is None and not in_vain() and (left := until - monotonic()) > 0:
            channel = self._stand_in_queue(left)
        return channel

    def give_back(self, channel: Channel) -> None:
        """The caller is done with it. A channel that still owes a reply is closed."""
        if channel.owed or channel.retired:
            self.drop(channel)
        else:
            self._idle.append(channel)
        if self._queue:
            self._serve()

    def drop(self, channel: Channel) -> None:
        """The channel is of no use any more."""
        channel.close()
        self._open.discard(channel)

    def suspect(self) -> None:
        """The server hung up on somebody: look at the others before they are used."""
        self.losses += 1
        self._suspect_before = monotonic()

    def sweep(self) -> None:
        """Drop the idle ones that were hung up on."""
        now, good = monotonic(), []
        self._suspect_before = now  # a look that is repeated often must not pass for use
        while (channel := self.borrow(now)) is not None:
            good.append(channel)
        for channel in good:
            self.give_back(channel)

    def wake(self) -> None:
        """Let those who wait see whether it is in vain."""
        with self._queueing:
            while self._queue:
                self._queue.popleft().called.release()

    def retire(self) -> None:
        """No channel that is open now is used again."""
        for channel in list(self._open):
            channel.retired = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close what nobody is using."""
        while (channel := self.borrow(monotonic())) is not None:
            self.drop(channel)

    def abandon(self) -> None:
        """Close this process's copies of all sockets, those in use too: after a fork they are another's."""
        for channel in list(self._open):
            channel.close()

    def _stand_in_queue(self, seconds: float) -> Channel | None:
        waiter = Waiter()
        try:
            with self._queueing:
                self._queue.append(waiter)
            self._serve()  # one may have come back before there was a queue
            waiter.called.acquire(timeout=seconds)
        finally:
            with self._queueing:
                if waiter in self._queue:
                    self._queue.remove(waiter)
        return waiter.channel

    def _serve(self) -> None:
        """Hand out what is idle."""
        with self._queueing:
            while self._queue and (channel := self.borrow(monotonic())) is not None:
                waiter = self._queue.popleft()
                waiter.channel = channel
                waiter.called.release()
