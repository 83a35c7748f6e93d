"""The shared store for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import hiredis

from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.link import Reply
from limen.stores.valkey.names import Names
from limen.stores.valkey.node import Node
from limen.stores.valkey.script import Commands, parse_levels

__all__ = ["AsyncValkeyStore"]


class AsyncValkeyStore:
    """Buckets in one Valkey or Redis server.

    Args:
        endpoint: where the server is.
        secret: keys the hash of identities.
        deadline_ms: how long a decision waits for the server.
    """

    def __init__(self, endpoint: Endpoint, secret: str | bytes | None, deadline_ms: float) -> None:
        self._commands = Commands(Names(secret))
        self.node = Node(endpoint, deadline_ms / 1000, self._commands.load)
        self._loads = 0

    @property
    def state(self) -> str:
        return "down" if self.node.breaker.is_open else "up"

    async def start(self) -> None:
        await self.node.start()

    async def close(self) -> None:
        await self.node.close()

    async def take(self, ops: Sequence[Op]) -> Sequence[int]:
        command, loads = self._commands.take(ops), self._loads
        try:
            reply = await self.node.ask(command)
            if type(reply) is not int:
                reply = await self._settled(command, reply, loads)
        except StoreError as error:
            self._count(error)
            raise
        return (reply,) if type(reply) is int and reply >= 0 and len(ops) == 1 else parse_levels(reply, ops)

    async def reset(self, identity: str, rule: str | None) -> None:
        command, loads = self._commands.reset(identity, rule), self._loads
        try:
            await self._settled(command, await self.node.ask(command), loads)
        except StoreError as error:
            self._count(error)
            raise

    async def _settled(self, command: bytes, reply: Reply, loads: int) -> Reply:
        """The reply, once the server knows the script.

        Args:
            loads: `_loads` when the command was sent.
        """
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT"):
            self._load_script(loads)
            reply = await self.node.ask(command)  # it was refused unread, so it was not counted
        if isinstance(reply, hiredis.ReplyError):
            raise StoreError(f"{self.node.endpoint} refused: {reply}", "refused")
        return reply

    def _count(self, error: StoreError) -> None:
        if error.kind == "timeout":
            self.node.missed()

    def _load_script(self, loads_before: int) -> None:
        """Send the script, unless that was done since the refused question: many are refused at once."""
        if self._loads == loads_before:
            self._loads += 1
            self.node.ask(self._commands.load).add_done_callback(_read)


def _read(loaded: asyncio.Future[Reply]) -> None:
    """Look at the outcome; a failure shows itself in the question that follows."""
    if not loaded.cancelled():
        loaded.exception()
