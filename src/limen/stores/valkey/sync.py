"""The shared store for code that blocks: one server, or the primary that sentinels know."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

import hiredis

from limen.core.algorithm import Seen
from limen.core.delays import Delays
from limen.core.limit import Limit
from limen.stores.base import Op
from limen.stores.valkey.endpoint import Target
from limen.stores.valkey.memory_loss import Marker, Memory
from limen.stores.valkey.returning import tell
from limen.stores.valkey.script import Commands, parse_seen
from limen.stores.valkey.sync_each import take_each
from limen.stores.valkey.sync_keeper import DEFAULT_MAX_CONNECTIONS
from limen.stores.valkey.sync_node import SyncNode
from limen.stores.valkey.sync_operations import SyncOperations
from limen.stores.valkey.sync_pile import Answer
from limen.stores.valkey.sync_single import FollowingNode, SingleNode, find_primary

__all__ = ["ValkeyStore"]


class ValkeyStore(SyncOperations):
    """Buckets in one Valkey or Redis server.

    It is safe to use from many threads, and in the children of a process that has used it.

    Args:
        target: where the server is, or who knows.
        commands: what is sent.
        deadline_ms: how long a decision waits for the server.
        max_connections: the most that are open; further threads wait for one within the deadline.
    """

    def __init__(
        self, target: Target, commands: Commands, deadline_ms: float, max_connections: int = DEFAULT_MAX_CONNECTIONS
    ) -> None:
        memory, delays = Memory(), dict[str, Delays]()
        marker = Marker(memory, lambda: self._commands, lambda: [0])
        self.node = _node(
            target, deadline_ms / 1000, commands.load, max_connections,
            returned=self._returned, marker=marker, delays=delays,
        )  # fmt: skip
        super().__init__(SingleNode(self.node), commands, deadline_ms, memory, delays)

    def _returned(self) -> None:
        tell(self.on_return, lambda identity, label: True)

    def atomic(self, ops: Sequence[Op]) -> bool:
        """Always: everything is in one server."""
        return True

    def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        node = self.node
        commands = self._commands
        if self.memory.young:
            commands = self.memory.commands(commands, node.shard, ops)
        command, loads = commands.take(ops), node.loads
        reply = node.ask(command)
        if type(reply) is int and reply >= 0 and len(ops) == 1 and type(ops[0].limit) is Limit:
            return (reply,)  # one token bucket: the common case, without a detour
        if isinstance(reply, hiredis.ReplyError):
            until = monotonic() + self._asking.deadline_s
            reply = self._asking.settled(node, command, reply, loads, until, many_keys=False)
        return parse_seen(reply, ops)

    def take_each(self, questions: Sequence[Sequence[Op]]) -> list[Answer]:
        """`take` for each question, in one round trip: what was found, or why there is no answer."""
        return take_each(self._asking, self._commands, questions)


def _node(target: Target, deadline_s: float, load: bytes, max_connections: int, **told: Any) -> SyncNode:
    if target.kind == "sentinel":
        where = f"{target.name} behind {target.seeds[0].address}"
        return FollowingNode(where, find_primary(target), deadline_s, load, max_connections, **told)
    node = SyncNode(str(target.login), lambda: target.login, deadline_s, load, max_connections, **told)
    node.endpoint = target.login
    return node
