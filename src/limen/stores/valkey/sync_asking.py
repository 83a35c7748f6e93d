"""A question to whichever node decides about its key, until there is an answer or a failure.

What was refused unread is asked again: elsewhere, with the script, or a moment later. Nothing else is ever sent twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic, sleep
from typing import Protocol

import hiredis

from limen.errors import StoreError
from limen.stores.valkey.memory_loss import Memory
from limen.stores.valkey.replies import Refusal, classify, store_error
from limen.stores.valkey.split import KeysApart
from limen.stores.valkey.sync_channel import Reply
from limen.stores.valkey.sync_node import SyncNode
from limen.stores.valkey.topology import ASKING

__all__ = ["Asking", "Nodes"]

MOST_TURNS = 5
TRY_AGAIN_S = 0.001


class Nodes(Protocol):
    """Who decides about which key."""

    @property
    def state(self) -> str: ...

    @property
    def shards(self) -> Mapping[str, str]:
        """The state of each server, by `host:port`."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    def node_of(self, key: bytes) -> SyncNode:
        """Who decides. Raises `StoreError` when that is not known."""

    def elsewhere(self, refusal: Refusal, asked: SyncNode) -> SyncNode | None:
        """Who decides instead, when a node said that it does not; None where that cannot be."""

    def look_again(self) -> None:
        """What is known of the nodes may not be so any more."""


class Asking:
    """Asks nodes.

    Args:
        nodes: who decides.
        load: the command that brings the script to a node.
        deadline_s: how long a question may take, with all its turns.
        memory: which servers lost theirs.
    """

    def __init__(self, nodes: Nodes, load: bytes, deadline_s: float, memory: Memory) -> None:
        self.nodes = nodes
        self.deadline_s = deadline_s
        self.memory = memory
        self._load = load

    def ask(self, key: bytes, command: bytes, until: float = 0.0, *, many_keys: bool = False) -> Reply:
        """The reply to a command, which is not an error.

        Args:
            until: the deadline by the monotonic clock, when it began before this.
            many_keys: whether a slot that is being moved cannot decide about the command at all.

        Raises:
            StoreError: there is none, or it is an error.
        """
        began = monotonic()
        node = self.nodes.node_of(key)
        loads = node.loads
        reply = node.ask(command, until)
        if isinstance(reply, hiredis.ReplyError):
            until = until or began + self.deadline_s
            return self.settled(node, command, reply, loads, until, many_keys=many_keys)
        return reply

    def settled(
        self, node: SyncNode, command: bytes, reply: Reply, loads: int, until: float, *, many_keys: bool
    ) -> Reply:
        """The reply to a command that `node` answered with an error.

        Args:
            loads: `node.loads` when it was asked.

        Raises:
            StoreError: as `ask`; `KeysApart` when it has to be asked in parts.
        """
        asking, loaded = False, None
        for _ in range(MOST_TURNS):
            if not isinstance(reply, hiredis.ReplyError):
                return reply
            refusal = classify(str(reply))
            if refusal.code == "NOSCRIPT" and loaded is not node:
                node.load_once(self._load, loads, until)
                loaded = node
            elif (other := self.nodes.elsewhere(refusal, node)) is not None:
                node, asking = other, refusal.code == "ASK"
            elif refusal.code == "TRYAGAIN" and many_keys:
                raise KeysApart(refusal.text, refusal.kind, node.shard)
            elif refusal.code == "TRYAGAIN" and monotonic() + TRY_AGAIN_S < until:
                sleep(TRY_AGAIN_S)
            else:
                break
            loads = node.loads
            reply = node.ask_second(ASKING + command, until) if asking else node.ask(command, until)
        if not isinstance(reply, hiredis.ReplyError):
            return reply
        raise self._refused(node, classify(str(reply)))

    def _refused(self, node: SyncNode, refusal: Refusal) -> StoreError:
        if refusal.unusable:
            node.note_unusable(refusal.text)
        if refusal.stale:
            node.leave(refusal.text)
        if refusal.moved_on:
            self.nodes.look_again()
        return store_error(refusal, node.where, node.shard)
