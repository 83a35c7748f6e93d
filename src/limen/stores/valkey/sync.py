"""The shared store for code that blocks: the same commands and replies as for coroutines, on sockets that wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

import hiredis

from limen.core.algorithm import Seen
from limen.core.concurrency import SlotsSeen
from limen.core.limit import Limit
from limen.errors import StoreError
from limen.stores.base import Op, Slot
from limen.stores.valkey.endpoint import Endpoint, Target
from limen.stores.valkey.script import Commands, grouped, parse_bool, parse_seen, parse_slots
from limen.stores.valkey.split import Part, split
from limen.stores.valkey.sync_asking import Asking, KeysApart, Nodes
from limen.stores.valkey.sync_cluster import SyncCluster
from limen.stores.valkey.sync_each import Answer, take_each
from limen.stores.valkey.sync_keeper import DEFAULT_MAX_CONNECTIONS
from limen.stores.valkey.sync_node import SyncNode
from limen.stores.valkey.sync_parts import take_by_key, take_in_parts
from limen.stores.valkey.sync_single import SingleNode, find_primary

__all__ = ["ValkeyStore"]

APART = KeysApart("several slots decide", "moved")


class ValkeyStore:
    """Buckets in Valkey or Redis: one server, a cluster, or the primary behind sentinels.

    It is safe to use from many threads, and in the children of a process that has used it.

    Args:
        target: where the servers are.
        commands: what is sent.
        deadline_ms: how long a decision waits for the server.
        max_connections: the most that are open to one server; further threads wait for one within the deadline.
    """

    def __init__(
        self,
        target: Target,
        commands: Commands,
        deadline_ms: float,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
    ) -> None:
        self._commands = commands
        self._names = commands.names
        self.nodes = _nodes(target, deadline_ms / 1000, commands.load, max_connections)
        self._only = self.nodes.node if isinstance(self.nodes, SingleNode) else None
        self._asking = Asking(self.nodes, commands.load, deadline_ms / 1000)

    @property
    def state(self) -> str:
        return self.nodes.state

    def start(self) -> None:
        self.nodes.start()

    def close(self) -> None:
        self.nodes.close()

    def atomic(self, ops: Sequence[Op]) -> bool:
        return len(self._parts(ops)) == 1

    def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        node = self._only
        if node is not None:
            loads, command = node.loads, self._commands.take(ops)
            reply = node.ask(command)
            if type(reply) is int and reply >= 0 and len(ops) == 1 and type(ops[0].limit) is Limit:
                return (reply,)  # one token bucket: the common case, without a detour
            if isinstance(reply, hiredis.ReplyError):
                until = monotonic() + self._asking.deadline_s
                reply = self._asking.settled(node, command, reply, loads, until, many_keys=False)
            return parse_seen(reply, ops)
        if len(ops) > 1 and len(parts := self._parts(ops)) > 1:
            return take_in_parts(self._asking, self._commands, parts)
        many_keys = len(ops) > 1 and len(grouped(ops)) > 1
        try:
            reply = self._asking.ask(self._key(ops[0]), self._commands.take(ops), many_keys=many_keys)
        except KeysApart:
            part = Part(0, tuple(range(len(ops))), tuple(ops))
            return take_by_key(self._asking, self._commands, part, monotonic() + self._asking.deadline_s)
        return (reply,) if type(reply) is int and reply >= 0 and len(ops) == 1 else parse_seen(reply, ops)

    def take_each(self, questions: Sequence[Sequence[Op]]) -> list[Answer]:
        """`take` for each question, in one round trip to each node: what was found, or why there is no answer."""
        together = [place for place, ops in enumerate(questions) if len(ops) == 1 or len(self._parts(ops)) == 1]
        found = take_each(self._asking, self._commands, [questions[place] for place in together])
        answers = dict(zip(together, found, strict=True))
        for place, ops in enumerate(questions):
            if isinstance(answers.get(place, APART), KeysApart):
                answers[place] = self._taken(ops)
        return [answers[place] for place in range(len(questions))]

    def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        reply = self._asking.ask(self._key(op), self._commands.grant(op, tokens, for_us))
        return parse_seen(reply, [op])[0]

    def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        self._asking.ask(self._names.key(identity, colocate), self._commands.reset(identity, rule, colocate))

    def acquire(self, slot: Slot) -> SlotsSeen:
        return parse_slots(self._asking.ask(self._names.slots_key(slot), self._commands.acquire(slot)))

    def renew(self, slot: Slot) -> bool:
        return parse_bool(self._asking.ask(self._names.slots_key(slot), self._commands.renew(slot)))

    def release(self, slot: Slot) -> bool:
        return parse_bool(self._asking.ask(self._names.slots_key(slot), self._commands.release(slot)))

    def _taken(self, ops: Sequence[Op]) -> Answer:
        try:
            return self.take(ops)
        except StoreError as error:
            return error

    def _key(self, op: Op) -> bytes:
        return self._names.key(op.identity, op.colocate)

    def _parts(self, ops: Sequence[Op]) -> list[Part]:
        return split(ops, lambda op: self.nodes.slot_of(self._key(op)))


def _nodes(target: Target, deadline_s: float, load: bytes, max_connections: int) -> Nodes:
    def node(
        where: str, locate: Callable[[], Endpoint], troubled: Callable[[], None] = lambda: None, primary: bool = True
    ) -> SyncNode:
        return SyncNode(where, locate, deadline_s, load, max_connections, primary, troubled)

    if target.kind == "cluster":
        return SyncCluster(target, deadline_s, lambda at, troubled: node(str(at), lambda: at, troubled, False))
    if target.kind == "sentinel":
        return SingleNode(node(f"{target.name} behind {target.seeds[0].address}", find_primary(target)))
    return SingleNode(node(str(target.login), lambda: target.login))
