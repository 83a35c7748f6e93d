"""One command on its way through a cluster."""

from __future__ import annotations

import asyncio

import hiredis

from limen.stores.valkey.asking import Question
from limen.stores.valkey.cluster import Cluster
from limen.stores.valkey.link import Reply
from limen.stores.valkey.node import Node

__all__ = ["Errand"]


class Errand:
    """A command about keys of one slot, and where it is.

    Args:
        cluster: where to go.
        slot: whose owner decides.
        command: what is sent.
        one_key: whether it concerns a single key.
        urgent: whether it is asked whatever else is in flight.
    """

    __slots__ = ("_answer", "_cluster", "_command", "_loads", "_one_key", "_slot", "_urgent", "node")

    def __init__(
        self, cluster: Cluster, slot: int, command: bytes, *, one_key: bool = True, urgent: bool = False
    ) -> None:
        self.node: Node | None = None
        """Who got it last; None while it was sent to nobody."""
        self._cluster = cluster
        self._slot = slot
        self._command = command
        self._one_key = one_key
        self._urgent = urgent
        self._answer: asyncio.Future[Reply] | None = None
        self._loads = 0

    def send(self) -> None:
        """Set out.

        Raises:
            StoreError: nothing was sent.
        """
        node = self._cluster.node_of(self._slot)
        ask = node.tell if self._urgent else node.ask
        self._loads, self._answer, self.node = node.loads, ask(self._command), node

    async def reply(self) -> Reply:
        """The reply to what was sent.

        Raises:
            StoreError: there is none; `KeysApart` when the command has to be cut into one for each key.
        """
        assert self._answer is not None
        assert self.node is not None
        return await self.settled(self.node, self._loads, await self._answer)

    async def run(self) -> Reply:
        """Both."""
        self.send()
        return await self.reply()

    def drop(self) -> None:
        """Nobody wants the reply any more."""
        if self._answer is not None:
            self._answer.cancel()

    async def settled(self, node: Node, loads: int, reply: Reply) -> Reply:
        """The same when `node` has replied already. `loads` is from before it was asked."""
        if not isinstance(reply, hiredis.ReplyError):
            return reply
        question = Question(self._command, node, loads, self._cluster, self._cluster.deadline_s, one_key=self._one_key)
        try:
            return await question.settled(reply)
        finally:
            self.node = question.node
