"""The shared store for coroutines: one server, or the primary that sentinels know."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Mapping, Sequence

import hiredis

from limen.core.algorithm import Seen
from limen.core.limit import Limit
from limen.stores.base import Op
from limen.stores.valkey.asking import NO_ROUTES, Question
from limen.stores.valkey.endpoint import Target
from limen.stores.valkey.link import Reply
from limen.stores.valkey.memory_loss import Marker
from limen.stores.valkey.node import Node
from limen.stores.valkey.operations import Operations
from limen.stores.valkey.per_loop import PerLoop
from limen.stores.valkey.returning import tell
from limen.stores.valkey.script import Commands, parse_seen
from limen.stores.valkey.sentinel import Sentinels

__all__ = ["AsyncValkeyStore"]


class AsyncValkeyStore(Operations):
    """Buckets in one Valkey or Redis server.

    Args:
        target: where the server is, or who knows.
        commands: what is sent.
        deadline_ms: how long a decision waits for the server.
    """

    def __init__(self, target: Target, commands: Commands, deadline_ms: float) -> None:
        super().__init__(commands)
        self._target = target
        self._deadline_s = deadline_ms / 1000
        self._nodes = PerLoop(self._open)

    @property
    def state(self) -> str:
        return self._nodes.state

    @property
    def shards(self) -> Mapping[str, str]:
        """Of each server, by `host:port`, whether it is `up` or `down`."""
        return self._nodes.shards

    @property
    def node(self) -> Node:
        """The server, as this event loop sees it."""
        return self._nodes.here()

    async def start(self) -> None:
        await self._nodes.start()

    async def close(self) -> None:
        await self._nodes.close()

    async def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        node = self._nodes.by_thread.get(get_ident())
        if node is None or not node.loop.is_running():
            node = await self._nodes.begun()
        commands = self._commands
        if self.memory.young:
            commands = self.memory.commands(commands, node.shard, ops)
        command, loads = commands.take(ops), node.loads
        reply = await node.ask(command)
        if type(reply) is int and reply >= 0 and len(ops) == 1 and type(ops[0].limit) is Limit:
            return (reply,)  # one token bucket: the common case, without a detour
        if isinstance(reply, hiredis.ReplyError):
            reply = await self._settled(command, node, loads, reply)
        return parse_seen(reply, ops)

    def atomic(self, ops: Sequence[Op]) -> bool:
        """Always: everything is in one server."""
        return True

    async def _ask(self, key: bytes, command: bytes, *, one_key: bool = True) -> Reply:
        node = await self._nodes.begun()
        loads = node.loads
        return await self._settled(command, node, loads, await node.ask(command))

    async def _settled(self, command: bytes, node: Node, loads: int, reply: Reply) -> Reply:
        if isinstance(reply, hiredis.ReplyError):
            return await Question(command, node, loads, NO_ROUTES, self._deadline_s).settled(reply)
        return reply

    def _open(self) -> Node:
        sentinels = self._target.kind == "sentinel"
        place = Sentinels(self._target).locate if sentinels else self._target.login
        marker = Marker(self.memory, lambda: self._commands, lambda: [0])
        load, returned = self._commands.load, self._returned
        return Node(place, self._deadline_s, load, on_return=returned, marker=marker, delays=self.delays)

    def _shard_of(self, key: bytes) -> str:
        return self._nodes.here().shard

    def _returned(self) -> None:
        tell(self.on_return, lambda identity, label: True)
