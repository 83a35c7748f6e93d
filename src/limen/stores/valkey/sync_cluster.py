"""The nodes of a cluster, each with its connections and its breaker, and who keeps which slot.

The map is looked at anew, off the path of requests, when a node says that a slot has moved, when a node is lost and
while it stays lost. It is swapped whole; a node that is in both maps keeps its connections.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from threading import Event
from time import monotonic
from typing import NamedTuple

from limen.errors import StoreError
from limen.stores.fork import begin_anew_after_fork
from limen.stores.valkey.endpoint import Address, Endpoint, Target
from limen.stores.valkey.replies import Refusal
from limen.stores.valkey.sync_attempts import Attempts
from limen.stores.valkey.sync_connect import ask_once
from limen.stores.valkey.sync_keeper import START_S
from limen.stores.valkey.sync_node import SyncNode
from limen.stores.valkey.topology import SLOTS_COMMAND, owners_of, parse_slots, slot_of

__all__ = ["SyncCluster"]

log = logging.getLogger("limen.store")

LOOK_PAUSE_S = 0.1


MakeNode = Callable[[Endpoint, Callable[[], None], Callable[[], None]], SyncNode]


class Map(NamedTuple):
    """Who keeps which slot, as far as it is known."""

    owners: list[Address | None]
    nodes: dict[Address, SyncNode]


class SyncCluster:
    """The primaries of a cluster.

    Args:
        target: some of its nodes, and how to log in.
        make_node: a node from its address and the functions to call when it is in trouble, and before it decides again.
        on_return: called with slots of which somebody decides who may have forgotten what was said last.
    """

    def __init__(self, target: Target, make_node: MakeNode, on_return: Callable[[Callable[[int], bool]], None]) -> None:
        self._target = target
        self._make_node = make_node
        self._on_return = on_return
        self._map = Map([], {})
        self._closed = False
        self._begin()
        begin_anew_after_fork(self)

    def _begin(self) -> None:
        self._looked = Event()
        """Set at the end of each look."""
        self._first_until = 0.0
        self._attempts = Attempts(
            "limen looks at the cluster", self._look, self._not_seen, self._looked.set, LOOK_PAUSE_S
        )

    def begin_after_fork(self) -> None:
        """In a child process: no thread of the parent's is there. The nodes see to themselves."""
        self._begin()

    @property
    def state(self) -> str:
        """`up` while every node that keeps slots is."""
        nodes = self._map.nodes.values()
        if not nodes:
            self.look_again()
        states = [node.state for node in nodes]  # of all of them: to be asked does a lost node good
        return "up" if states and set(states) == {"up"} else "down"

    @property
    def shards(self) -> Mapping[str, str]:
        nodes = self._map.nodes
        return {str(address): nodes[address].state for address in owners_of(self._map.owners) if address in nodes}

    def start(self) -> None:
        """See who is there and connect to them; returns when they answer, or after a second."""
        until = monotonic() + START_S
        self._closed = False
        self.look_again()
        self._looked.wait(START_S)
        for node in self._map.nodes.values():
            node.start(until)

    def close(self) -> None:
        self._closed = True
        for node in self._map.nodes.values():
            node.close()

    def node_of(self, key: bytes) -> SyncNode:
        if not self._map.owners and not self._closed:
            self.look_again()
            self._looked.wait(max(0.0, self._first_look() - monotonic()))
        owners, nodes = self._map
        owner = owners[slot_of(key)] if owners else None
        if owner is None or owner not in nodes:
            self.look_again()
            raise StoreError("it is not known which node of the cluster decides about this key", "cluster_down")
        return nodes[owner]

    def elsewhere(self, refusal: Refusal, asked: SyncNode) -> SyncNode | None:
        """Where MOVED and ASK lead; the map is looked at again after MOVED."""
        if refusal.code not in ("MOVED", "ASK"):
            return None
        address = Address(refusal.host or self._host_of(asked), refusal.port)
        node = self._map.nodes.get(address) or self._new_node(address)
        if refusal.code == "MOVED":
            self._map.owners[refusal.slot] = address
            self._on_return(lambda slot: slot == refusal.slot)
            self.look_again()
        return node

    def marked_slots(self, address: Address, marks: Mapping[int, bytes]) -> list[int]:
        """The slots of a node that are known to have a mark, or its first."""
        owners = self._map.owners
        if address not in owners:
            return []
        return [slot for slot in list(marks) if owners[slot] == address] or [owners.index(address)]

    def _first_look(self) -> float:
        """Until when requests wait for the first map."""
        self._first_until = self._first_until or monotonic() + START_S
        return self._first_until

    def look_again(self) -> None:
        if not self._closed:
            self._attempts.run()

    def _host_of(self, asked: SyncNode) -> str:
        """A node that does not know its own host means the one where it was asked."""
        return next((address.host for address, node in self._map.nodes.items() if node is asked), "")

    def _new_node(self, address: Address) -> SyncNode:
        return self._map.nodes.setdefault(address, self._made(address))

    def _made(self, address: Address) -> SyncNode:
        def returned() -> None:
            owners = self._map.owners
            self._on_return(lambda slot: owners[slot] == address)

        return self._make_node(self._target.login.at(*address), self.look_again, returned)

    def _look(self) -> None:
        """Ask the nodes that are known, then those of the URL, until one knows."""
        known = [self._target.login.at(*address) for address in self._map.nodes]
        errors = []
        for endpoint in (*random.sample(known, len(known)), *self._target.seeds):
            try:
                self._use(parse_slots(ask_once(endpoint, SLOTS_COMMAND), endpoint.address))
            except StoreError as error:
                errors.append(str(error))
            else:
                return
        raise StoreError("; ".join(errors), "down")

    def _use(self, owners: list[Address | None]) -> None:
        before, owners_before = self._map.nodes, self._map.owners
        nodes = {address: before.get(address) or self._made(address) for address in owners_of(owners)}
        moved = {slot for slot, owner in enumerate(owners_before) if owner is not None and owner != owners[slot]}
        if moved:
            self._on_return(moved.__contains__)
        self._map = Map(owners, nodes)
        for address, node in before.items():
            if address not in nodes:
                node.close()

    def _not_seen(self, error: StoreError, failures: int) -> None:
        log.log(logging.DEBUG if failures else logging.WARNING, "no node of the cluster answers: %s", error)
