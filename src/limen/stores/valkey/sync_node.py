"""One server, as threads see it: each question takes a connection for itself, unless that is in vain."""

from __future__ import annotations

from time import monotonic

import hiredis

from limen.errors import StoreError
from limen.stores.valkey.memory_loss import LOOK_S
from limen.stores.valkey.replies import classify, store_error
from limen.stores.valkey.sync_channel import Channel, Reply
from limen.stores.valkey.sync_keeper import SyncKeeper

__all__ = ["SHORTEST_S", "SyncNode"]

UNUSABLE_WITHIN_S = 1.0
SHORTEST_S = 0.0005
"""What is left for an answer when the deadline is over: a look at what has arrived."""


class SyncNode(SyncKeeper):
    """A server to ask. See `SyncKeeper` for the arguments."""

    loads = 0
    """How often the script was sent again."""

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
        self._delay.add(monotonic() - channel.used_at)
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
        """A channel for the caller alone, and how long it may wait for an answer. `give_back` must follow.

        Raises:
            StoreError: there is none to be had.
        """
        now = monotonic()
        channel = None if self.breaker.is_open or self._closed else self.pool.borrow(now)
        if now > self._mark_at:
            self._mark_at = now + LOOK_S
            self._marks.run()
        if channel is None:
            until = until or now + self._deadline_s
            half = (now + until) / 2  # the other half is for the answer
            channel = self._wait_for_one(max(half, self._until_known(now)))
            until = max(until, monotonic() + half - now)
        return channel, max(until - monotonic(), SHORTEST_S) if until else self._deadline_s

    def note(self, error: StoreError) -> None:
        """A question failed."""
        if error.kind == "timeout":
            self._misses += 1
            self._open_after(self._misses, str(error))
            if not self.breaker.is_open:
                self._doubts.run()
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

    def leave(self, why: str) -> None:
        """The server is not what it was: connect anew, wherever it is now."""
        self._last_error = why
        self.breaker.lost()
        self.pool.losses += 1
        self.pool.retire()
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
            raise store_error(classify(str(reply)), self.where, self.shard)
        self.loads += 1

    def _wait_for_one(self, until: float) -> Channel:
        channel = self.pool.wait(until, self._in_vain)
        if channel is not None:
            return channel
        if self._in_vain():
            raise StoreError(self._last_error or f"{self.where} is not connected", "down", self.shard)
        if len(self.pool):  # the server answers others meanwhile: this process is the one that is late
            message = f"all {len(self.pool)} connections to {self.where} are in use"
            raise StoreError(message, "overload", self.shard)
        error = StoreError(f"no connection to {self.where} within the deadline", "timeout", self.shard)
        self.note(error)
        raise error
