"""Many questions at once, each decided for itself: one write and one wait for each node, whatever their number."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import hiredis

from limen.core.algorithm import Seen
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.script import Commands, parse_seen
from limen.stores.valkey.sync_asking import Asking
from limen.stores.valkey.sync_channel import Channel, Reply
from limen.stores.valkey.sync_node import SHORTEST_S, SyncNode

__all__ = ["Answer", "take_each"]

AT_ONCE = 512
"""The most questions that are under way on one connection: what they and their answers take fits its buffers."""

Answer = Sequence[Seen] | StoreError


def take_each(asking: Asking, commands: Commands, questions: Sequence[Sequence[Op]]) -> list[Answer]:
    """What was found for each question, whose keys are in one slot, or why there is no answer."""
    answers: list[Answer] = [StoreError("not asked", "down")] * len(questions)
    for begin in range(0, len(questions), AT_ONCE):
        _take_some(asking, commands, questions, range(begin, min(begin + AT_ONCE, len(questions))), answers)
    return answers


def _take_some(
    asking: Asking, commands: Commands, questions: Sequence[Sequence[Op]], places: range, answers: list[Answer]
) -> None:
    until = monotonic() + asking.deadline_s
    piles: dict[SyncNode, Pile] = {}
    for place in places:
        op = questions[place][0]
        try:
            node = asking.nodes.node_of(commands.names.key(op.identity, op.colocate))
        except StoreError as error:
            answers[place] = error
        else:
            piles.setdefault(node, Pile(asking, commands, node, until)).add(place, questions[place])
    for pile in piles.values():
        pile.send()
    for pile in piles.values():
        pile.receive(answers)


class Pile:
    """Questions to one node."""

    def __init__(self, asking: Asking, commands: Commands, node: SyncNode, until: float) -> None:
        self._asking = asking
        self._commands = commands
        self._node = node
        self._until = until
        self._questions: list[tuple[int, Sequence[Op], bytes]] = []
        self._loads = node.loads
        self._channel: Channel | None = None
        self._failure: StoreError | None = None

    def add(self, place: int, ops: Sequence[Op]) -> None:
        self._questions.append((place, ops, self._commands.take(ops)))

    def send(self) -> None:
        """Ask all. A failure shows itself in the answers."""
        try:
            self._channel, patience_s = self._node.borrow(self._until)
            everything = b"".join([command for _, _, command in self._questions])
            self._channel.send(everything, patience_s, replies=len(self._questions))
        except StoreError as error:
            self._failed(error)

    def receive(self, answers: list[Answer]) -> None:
        """Put each answer in its place."""
        try:
            replies = [self._next() for _ in self._questions]
        finally:
            if self._channel is not None:
                self._node.give_back(self._channel)
        for (place, ops, command), reply in zip(self._questions, replies, strict=True):
            answers[place] = self._read(ops, command, reply)

    def _next(self) -> Reply:
        """The next reply; once there was a failure it is that."""
        if self._failure is None and self._channel is not None:
            try:
                return self._channel.receive(max(self._until - monotonic(), SHORTEST_S))
            except StoreError as error:
                self._failed(error)
        return self._failure

    def _read(self, ops: Sequence[Op], command: bytes, reply: Reply) -> Answer:
        if isinstance(reply, StoreError):
            return reply
        try:
            if isinstance(reply, hiredis.ReplyError):
                many_keys = len({(op.identity, op.colocate) for op in ops}) > 1
                reply = self._asking.settled(self._node, command, reply, self._loads, self._until, many_keys=many_keys)
            return parse_seen(reply, ops)
        except StoreError as error:
            return error

    def _failed(self, error: StoreError) -> None:
        self._failure = error
        if self._channel is not None:
            self._node.note(error)
