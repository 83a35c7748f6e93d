"""A request whose buckets lie in several slots of a cluster: each slot decides for itself, and all or none are charged.

Every part is sent before the first answer is read. When another part denies, or fails, what was taken is given back,
on the connection that took it where its answer did not come: so it cannot be given back before it is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from secrets import token_bytes
from time import monotonic

import hiredis

from limen.core.algorithm import Seen
from limen.errors import StoreError
from limen.stores.valkey.script import Commands, parse_seen
from limen.stores.valkey.split import Outcome, Part, by_key, give_back, looking, merged, passed, spends
from limen.stores.valkey.sync_asking import Asking, KeysApart
from limen.stores.valkey.sync_channel import Channel, Reply
from limen.stores.valkey.sync_node import SHORTEST_S, SyncNode

__all__ = ["take_by_key", "take_in_parts"]

log = logging.getLogger("limen.store")


def take_in_parts(asking: Asking, commands: Commands, parts: Sequence[Part]) -> list[Seen]:
    """What was found, in the order of the request.

    Raises:
        StoreError: a part failed; what others took was given back.
    """
    undo = token_bytes(16) if any(map(spends, parts)) else b""
    until = monotonic() + asking.deadline_s
    talks = [Talk(asking, commands, part, undo, until) for part in parts]
    try:
        for talk in talks:
            talk.send()
        outcomes = _moving_last(asking, commands, parts, [talk.outcome() for talk in talks], until)
        for at in give_back(parts, outcomes):
            talks[at].give_back()
    finally:
        for talk in talks:
            talk.end()
    return merged(parts, [_seen(outcome) for outcome in outcomes], sum(len(part.ops) for part in parts))


def take_by_key(asking: Asking, commands: Commands, part: Part, until: float) -> list[Seen]:
    """The same for keys of one slot that is being moved, which decides about single keys only.

    What was taken before another key denied is not given back: a record of it would be a second key.
    """
    pieces = by_key(part, lambda op: commands.names.key(op.identity, op.colocate))
    seens: list[Sequence[Seen]] = []
    for piece in pieces:
        if not all(passed(each.ops, seen) for each, seen in zip(pieces, seens, strict=False)):
            piece = looking(piece)
        key = commands.names.key(piece.ops[0].identity, piece.ops[0].colocate)
        seens.append(parse_seen(asking.ask(key, commands.take(piece.ops), until), piece.ops))
    order = [place for piece in pieces for place in piece.at]
    found = dict(zip(order, [each for seen in seens for each in seen], strict=True))
    return [found[place] for place in part.at]


def _moving_last(
    asking: Asking, commands: Commands, parts: Sequence[Part], outcomes: list[Outcome], until: float
) -> list[Outcome]:
    """The outcomes, when what lies in a slot that is being moved was asked too: last, for it cannot be given back."""
    rest = [(part, each) for part, each in zip(parts, outcomes, strict=True) if not isinstance(each, KeysApart)]
    allowed = all(not isinstance(each, StoreError) and passed(part.ops, each) for part, each in rest)
    for at, part in enumerate(parts):
        if isinstance(outcomes[at], KeysApart):
            try:
                outcomes[at] = take_by_key(asking, commands, part if allowed else looking(part), until)
            except StoreError as error:
                outcomes[at] = error
    return outcomes


class Talk:
    """What one part is asked and answers."""

    def __init__(self, asking: Asking, commands: Commands, part: Part, undo: bytes, until: float) -> None:
        self._asking = asking
        self._commands = commands
        self._part = part
        self._undo = undo
        self._until = until
        self._take = commands.take(part.ops, undo)
        self._key = commands.names.key(part.ops[0].identity, part.ops[0].colocate)
        self._node: SyncNode | None = None
        self._channel: Channel | None = None
        self._loads = 0
        self._failure: StoreError | None = None

    def send(self) -> None:
        """Ask. A failure is told by `outcome`."""
        try:
            self._node = node = self._asking.nodes.node_of(self._key)
            self._loads = node.loads
            self._channel, patience_s = node.borrow(self._until)
            self._channel.send(self._take, patience_s)
        except StoreError as error:
            self._failed(error)

    def outcome(self) -> Outcome:
        """What came of it."""
        try:
            reply = self._reply()
            if isinstance(reply, hiredis.ReplyError):
                reply = self._settled(reply)
            return parse_seen(reply, self._part.ops)
        except StoreError as error:
            self._failure = error
            return error

    def give_back(self) -> None:
        """Give back what was taken, or may have been."""
        if not self._undo:
            return
        undo = self._commands.undo(self._part.ops, self._undo)
        try:
            if self._channel is not None and self._channel.owed:
                self._channel.send(undo, SHORTEST_S)  # behind the take, whose answer nobody will read
            elif self._node is not None and self._failure is None:
                self._asking.ask(self._key, undo)
        except StoreError as error:
            log.warning("what was taken may not be given back: %s", error)

    def end(self) -> None:
        """Let the connection go."""
        if self._node is not None and self._channel is not None:
            self._node.give_back(self._channel)

    def _reply(self) -> Reply:
        if self._failure is not None:
            raise self._failure
        assert self._channel is not None
        try:
            return self._channel.receive(max(self._until - monotonic(), SHORTEST_S))
        except StoreError as error:
            self._failed(error)
            raise

    def _settled(self, reply: Reply) -> Reply:
        assert self._node is not None
        return self._asking.settled(self._node, self._take, reply, self._loads, self._until, many_keys=True)

    def _failed(self, error: StoreError) -> None:
        self._failure = error
        if self._node is not None and self._channel is not None:
            self._node.note(error)


def _seen(outcome: Outcome) -> Sequence[Seen]:
    if isinstance(outcome, StoreError):
        raise outcome
    return outcome
