"""Questions that leave for one node together, on one connection: one write and one wait, whatever their number."""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import NamedTuple

import hiredis

from limen.core.algorithm import Seen
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.script import parse_seen
from limen.stores.valkey.sync_asking import Asking
from limen.stores.valkey.sync_channel import Channel, Reply
from limen.stores.valkey.sync_node import SHORTEST_S, SyncNode

__all__ = ["Answer", "Pile", "Question", "asked"]

Answer = Sequence[Seen] | StoreError


class Question(NamedTuple):
    """What is asked, and the place of its answer."""

    place: int
    ops: Sequence[Op]
    command: bytes
    many_keys: bool


class Pile:
    """What one node is asked, and its answers."""

    def __init__(self, asking: Asking, node: SyncNode, until: float) -> None:
        self._asking = asking
        self._node = node
        self._until = until
        self._questions: list[Question] = []
        self._loads = node.loads
        self._channel: Channel | None = None
        self._failure: StoreError | None = None

    @property
    def where(self) -> str:
        return self._node.where

    @property
    def owes(self) -> bool:
        """Whether an answer is still to come that nobody waits for."""
        return self._channel is not None and self._channel.owed > 0

    def add(self, question: Question) -> None:
        self._questions.append(question)

    def send(self) -> None:
        """Ask all. A failure shows itself in the answers."""
        try:
            self._channel, patience_s = self._node.borrow(self._until)
            everything = b"".join([question.command for question in self._questions])
            self._channel.send(everything, patience_s, replies=len(self._questions))
        except StoreError as error:
            self._failed(error)

    def receive(self, answers: MutableSequence[Answer]) -> None:
        """Put each answer in its place."""
        replies = [self._next() for _ in self._questions]
        if not self.owes:
            self.end()  # what has to be asked again borrows a connection of its own
        for question, reply in zip(self._questions, replies, strict=True):
            answers[question.place] = self._read(question, reply)

    def tell(self, command: bytes) -> None:
        """Send something behind what is still owed.

        Raises:
            StoreError: it was not sent.
        """
        if self._channel is not None:
            self._channel.send(command, SHORTEST_S)

    def end(self) -> None:
        """Let the connection go. It may be said again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            self._node.give_back(channel)

    def _next(self) -> Reply:
        """The next reply; once there was a failure it is that."""
        if self._failure is None and self._channel is not None:
            try:
                return self._channel.receive(max(self._until - monotonic(), SHORTEST_S))
            except StoreError as error:
                self._failed(error)
        return self._failure

    def _read(self, question: Question, reply: Reply) -> Answer:
        if isinstance(reply, StoreError):
            return reply
        try:
            if isinstance(reply, hiredis.ReplyError):
                reply = self._settled(question, reply)
            return parse_seen(reply, question.ops)
        except StoreError as error:
            return error

    def _settled(self, question: Question, reply: Reply) -> Reply:
        _, _, command, many_keys = question
        return self._asking.settled(self._node, command, reply, self._loads, self._until, many_keys=many_keys)

    def _failed(self, error: StoreError) -> None:
        self._failure = error
        if self._channel is not None:
            self._node.note(error)


@contextmanager
def asked(piles: Sequence[Pile], answers: MutableSequence[Answer]) -> Iterator[None]:
    """Ask all nodes, then read all answers; the connections that are owed some are kept until the end of the block.

    Connections are borrowed in one order: two threads that want the same two never wait for each other.
    """
    try:
        for pile in sorted(piles, key=lambda pile: pile.where):
            pile.send()
        for pile in piles:
            pile.receive(answers)
        yield
    finally:
        for pile in piles:
            pile.end()
