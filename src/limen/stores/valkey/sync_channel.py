"""One blocking connection that belongs to one thread at a time: a question, then its answer.

The rule that everything here serves: a reply that was not read must never reach the next caller. So a channel counts
what it was asked and has not answered, whatever interrupted it (a deadline, an error, Ctrl-C), and one that owes
an answer is never used again.

The deadline is the timeout of the socket: a `poll` before each `recv`. SO_RCVTIMEO would save it (2 µs), but counts in
ticks of the kernel's clock: 5 ms become 12 where that has 250 a second. Before the question no `poll` is needed, for
there is room for it. The kernel counts the time: a reply that is there when this process gets the processor again is
read, so that only the server can be late.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from ssl import SSLSocket
from time import monotonic

import hiredis

from limen.errors import StoreError

__all__ = ["Channel", "Reply"]

READ_SIZE = 65_536

Reply = object


class Channel:
    """A connected, logged-in connection.

    Args:
        connected: the socket; it is the channel's from now on.
        patience_s: how long an answer may take, unless a question says otherwise.
        shard: which server it leads to, `host:port`.
    """

    __slots__ = (
        "__weakref__",
        "_feed",
        "_gets",
        "_has_data",
        "_patience_s",
        "_recv",
        "_send",
        "_shard",
        "_socket",
        "owed",
        "retired",
        "used_at",
    )

    def __init__(self, connected: socket.socket, patience_s: float, shard: str = "") -> None:
        reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._feed = reader.feed
        self._gets = reader.gets
        self._has_data = reader.has_data
        self._socket = connected
        self._send: Callable[[bytes], object] = _sender(connected)
        self._recv = connected.recv
        self._patience_s = patience_s
        self._shard = shard
        self.owed = 0
        """How many replies are owed to whoever asked. Only a channel that owes none can be used by somebody else."""
        self.retired = False
        """It leads to the wrong server: whoever has it gets its answer, and then it is closed."""
        self.used_at = monotonic()
        """When it was last handed out."""
        connected.settimeout(patience_s)

    def ask(self, command: bytes, patience_s: float) -> Reply:
        """`send` and `receive` in one, for the common case: a reply that arrives in one piece.

        A reply that is an error is a `hiredis.ReplyError` value.

        Raises:
            StoreError: `timeout` or `down`; the command may have been executed.
        """
        self.owed += 1
        try:
            if patience_s != self._patience_s:
                self._be_patient(patience_s)
            self._send(command)
            self._feed(self._recv(READ_SIZE))
            reply = self._gets()
            if reply is _NOTHING:
                reply = self._rest(monotonic() + patience_s)
            if self._has_data():
                raise _too_much()
        except (OSError, hiredis.ProtocolError) as error:
            raise self._failed(error) from error
        self.owed -= 1
        return reply

    def send(self, command: bytes, patience_s: float, replies: int = 1) -> None:
        """Send a command that has so many replies; as many `receive` must follow.

        Raises:
            StoreError: as `ask`.
        """
        self.owed += replies
        try:
            if patience_s != self._patience_s:
                self._be_patient(patience_s)
            self._send(command)
        except OSError as error:
            raise self._failed(error) from error

    def receive(self, patience_s: float = 0.0) -> Reply:
        """The reply to the oldest command that has none.

        Args:
            patience_s: replaces that of the command, when time went by since it was sent.

        Raises:
            StoreError: as `ask`.
        """
        try:
            if patience_s:
                self._be_patient(patience_s)
            reply = self._gets()
            if reply is _NOTHING:
                reply = self._rest(monotonic() + self._patience_s)
            if self.owed == 1 and self._has_data():
                raise _too_much()
        except (OSError, hiredis.ProtocolError) as error:
            raise self._failed(error) from error
        self.owed -= 1
        return reply

    def is_quiet(self) -> bool:
        """Whether an idle channel can be used: the other side has neither hung up nor said anything unasked."""
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
        except ValueError:  # it is closed
            return False
        return not poll.poll(0)

    def close(self) -> None:
        """Let the socket go. There is no shutdown: after a fork the connection is still the parent's."""
        self._send = _hung_up  # the number of the socket may soon be that of another
        self._socket.close()

    def _be_patient(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._socket.settimeout(patience_s)

    def _read(self) -> None:
        data = self._recv(READ_SIZE)
        if not data:
            raise ConnectionResetError("the server hung up")
        self._feed(data)

    def _rest(self, until: float) -> Reply:
        """A reply that comes in pieces, all of them by the deadline."""
        while (reply := self._gets()) is _NOTHING:
            self._socket.settimeout(max(until - monotonic(), 0.0) or _AT_ONCE_S)
            self._read()
        self._socket.settimeout(self._patience_s)
        return reply

    def _failed(self, error: Exception) -> StoreError:
        """What the socket said, in our words."""
        if isinstance(error, TimeoutError):
            message = f"no answer from the store within {self._patience_s * 1000:.3g} ms"
            return StoreError(message, "timeout", self._shard)
        message = f"the connection to the store was lost: {str(error) or type(error).__name__}"
        return StoreError(message, "down", self._shard)


def _hung_up(command: bytes) -> None:
    raise ConnectionAbortedError("we hung up")


def _sender(connected: socket.socket) -> Callable[[bytes], object]:
    """Sends all of a command, at once where there is room for it."""
    if isinstance(connected, SSLSocket):
        return connected.sendall
    number, write, send_rest = connected.fileno(), os.write, connected.sendall

    def send(command: bytes) -> None:
        written = write(number, command)
        if written != len(command):
            send_rest(command[written:])

    return send


def _too_much() -> hiredis.ProtocolError:
    return hiredis.ProtocolError("it said more than it was asked for")


_NOTHING = object()
_AT_ONCE_S = 0.0001
