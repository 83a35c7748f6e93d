"""From a refusal to an answer: a command that a server refused unread is sent again, there or elsewhere.

There are a few attempts, and none begins later than half a deadline after the first refusal. A reply that did not come
is never asked for again: the command may have been carried out.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import hiredis

from limen.errors import StoreError
from limen.stores.valkey.link import Reply
from limen.stores.valkey.node import Node
from limen.stores.valkey.replies import Refusal, classify, store_error
from limen.stores.valkey.split import KeysApart

__all__ = ["NO_ROUTES", "Question", "Routes"]

MOST_ATTEMPTS = 8


class Routes(Protocol):
    """What the store knows of other nodes."""

    async def follow(self, refusal: Refusal, node: Node) -> Node | None:
        """The node that MOVED or ASK names, connected as far as possible; None where there are no other nodes."""

    def doubt(self) -> None:
        """What is known of them may be out of date."""


class NoRoutes:
    """There is one server only."""

    async def follow(self, refusal: Refusal, node: Node) -> Node | None:
        return None

    def doubt(self) -> None:
        """There is no map to be wrong."""


NO_ROUTES = NoRoutes()


class Question:
    """A command that was refused.

    Args:
        command: the command.
        node: who refused it.
        loads: `node.loads` when it was sent.
        routes: where else it may go.
        deadline_s: how long a caller waits.
        one_key: whether it concerns a single key.
    """

    def __init__(
        self, command: bytes, node: Node, loads: int, routes: Routes, deadline_s: float, *, one_key: bool = True
    ) -> None:
        self.node = node
        """Who was asked last."""
        self._command = command
        self._loads = loads
        self._routes = routes
        self._deadline_s = deadline_s
        self._one_key = one_key
        self._asking = self._reloaded = False

    async def settled(self, reply: Reply) -> Reply:
        """The reply, once it is no error.

        Raises:
            StoreError: none did; `KeysApart` when it has to be asked in parts.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._deadline_s / 2
        attempts = 0
        while isinstance(reply, hiredis.ReplyError):
            refusal, attempts = classify(str(reply)), attempts + 1
            if attempts > MOST_ATTEMPTS or loop.time() > ends:
                raise store_error(refusal, str(self.node.endpoint), self.node.shard)
            reply = await self._again(refusal)
        return reply

    async def _again(self, refusal: Refusal) -> Reply:
        match refusal.code:
            case "NOSCRIPT" if not self._reloaded:
                self._reloaded = True
                self.node.reload(self._loads)
                return await self._send()
            case "MOVED" | "ASK":
                await self._go(refusal)
                return await self._send()
            case "TRYAGAIN" if self._routes is not NO_ROUTES:
                await self._wait(refusal)
                return await self._send()
        raise self._refused(refusal)

    def _send(self) -> asyncio.Future[Reply]:
        return self.node.ask_asking(self._command) if self._asking else self.node.ask(self._command)

    async def _go(self, refusal: Refusal) -> None:
        node = await self._routes.follow(refusal, self.node)
        if node is None:
            raise self._refused(refusal)
        self._asking = refusal.code == "ASK"
        if node is not self.node:
            self.node, self._loads, self._reloaded = node, node.loads, False

    async def _wait(self, refusal: Refusal) -> None:
        self._routes.doubt()
        if not self._one_key:
            raise KeysApart(refusal.text, refusal.kind, self.node.shard)
        await asyncio.sleep(self._deadline_s / MOST_ATTEMPTS)  # the key is on its way

    def _refused(self, refusal: Refusal) -> StoreError:
        if refusal.code == "NOSCRIPT" and self.node.load_error:
            refusal = classify(self.node.load_error)
        self.node.refused(refusal)
        if refusal.moved_on:
            self._routes.doubt()
        return store_error(refusal, str(self.node.endpoint), self.node.shard)
