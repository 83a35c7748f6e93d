"""The nodes of a cluster, and which of them decides about which slot.

The map is looked at anew when a node says MOVED or CLUSTERDOWN, when a connection is lost, often while a node is down
(its replica may have taken over), and now and then anyway. One task looks, so there is never more than one look at a
time; it waits a random while before each and rests after it. While it looks, MOVED alone corrects the map.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from limen.core.delays import Delays
from limen.errors import StoreError
from limen.stores.valkey.connect import open_link
from limen.stores.valkey.endpoint import Address, Endpoint, Target
from limen.stores.valkey.link import Reply
from limen.stores.valkey.memory_loss import Marker, Memory
from limen.stores.valkey.node import START_S, Node
from limen.stores.valkey.replies import Refusal
from limen.stores.valkey.script import Commands
from limen.stores.valkey.topology import SLOT_COUNT, SLOTS_COMMAND, Owners, owners_of, parse_slots
from limen.stores.valkey.waiting import about, within

__all__ = ["Cluster"]

log = logging.getLogger("limen.store")

PROBE = b"*2\r\n$4\r\nPTTL\r\n$18\r\nlimen{limen probe}\r\n"
"""A node of a cluster that is down answers PING, but nothing that concerns a key."""
SEED_PATIENCE_S = 1.0
BEFORE_LOOK_S = 0.02
"""The longest random pause before a look: all gateways hear of a change at once."""
REST_S, REST_IN_TROUBLE_S, REST_IN_PEACE_S = 0.1, 0.25, 30.0
"""The shortest time between two looks; between two while a node is down; and while all is well."""
SPARE_S = 10.0
"""How long a node is kept that owns nothing: somebody may wait for it, or a slot be on its way to it."""


class Marks(NamedTuple):
    """What the nodes of a cluster have in common."""

    memory: Memory
    commands: Callable[[], Commands]
    delays: dict[str, Delays]


class Cluster:
    """Every primary, each behind a breaker of its own, on the running event loop.

    Args:
        target: some nodes, and how to log in to all.
        deadline_s: how long a caller waits for a reply.
        load: the script.
        on_return: called with slots of which somebody decides who may have forgotten what was said last.
        marks: what is known of the memory of the nodes.
    """

    def __init__(
        self,
        target: Target,
        deadline_s: float,
        load: bytes,
        on_return: Callable[[Callable[[int], bool]], None] = lambda slots: None,
        marks: Marks | None = None,
    ) -> None:
        self.target = target
        self.nodes: dict[Address, Node] = {}
        self.looks = 0
        """How often the map was asked for."""
        self.loop = asyncio.get_running_loop()
        self.deadline_s = deadline_s
        self._load = load
        self._on_return = on_return
        self._marks = marks
        self._by_slot: list[Node | None] = [None] * SLOT_COUNT
        self._owners: set[Address] = set()
        self._spare: dict[Address, float] = {}
        """Nodes that own nothing, and when they were last of use."""
        self._task: asyncio.Task[None] | None = None
        self._doubted = asyncio.Event()
        self._looked = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self._trouble = StoreError(f"{target} is not connected", "down")

    @property
    def state(self) -> str:
        """`down` when no node decides."""
        return "up" if any(not node.breaker.is_open for node in self.nodes.values()) else "down"

    @property
    def shards(self) -> dict[str, str]:
        """The state of each node that owns slots, by its name."""
        return {node.shard: node.state for address, node in self.nodes.items() if address in self._owners}

    async def start(self) -> None:
        """Begin to connect; returns when every primary answers, or after a second."""
        await self.begin()
        if not self._owners or any(node.breaker.is_open for node in self.nodes.values()):
            log.warning("a part of %s does not answer yet; deciding without it until it does", self.target)

    async def begin(self) -> None:
        """Begin to connect; returns when every primary answers, or after a second."""
        if self._task is None:
            self._doubted, self._looked = asyncio.Event(), asyncio.Event()
            self._task = asyncio.create_task(self._keep_map(), name=f"limen map of {self.target}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await self._looked.wait()
                await asyncio.gather(*(self.nodes[owner].ready(START_S) for owner in self._owners))

    async def close(self) -> None:
        """Hang up everywhere."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await asyncio.gather(*(node.close() for node in self.nodes.values()), *self._closing)
        self.nodes.clear()
        self._by_slot = [None] * SLOT_COUNT

    def node_of(self, slot: int) -> Node:
        """Who decides about a slot.

        Raises:
            StoreError: nobody does.
        """
        node = self._by_slot[slot]
        if node is None:
            self.doubt()
            raise StoreError(f"no node decides about slot {slot}: {self._trouble}", self._trouble.kind)
        return node

    async def follow(self, refusal: Refusal, node: Node) -> Node:
        """The node that MOVED or ASK names, connected if that takes no more than half a deadline."""
        address = Address(refusal.host or node.endpoint.host, refusal.port)
        target = self._node_at(address)
        if address not in self._owners:
            self._spare[address] = asyncio.get_running_loop().time()
        if refusal.code == "MOVED" and 0 <= refusal.slot < SLOT_COUNT:
            self._reroute(target, refusal.slot)
            self.doubt()
        await target.ready(self.deadline_s / 2)
        return target

    def doubt(self) -> None:
        """Look at the map again, soon."""
        self._doubted.set()

    def _node_at(self, address: Address) -> Node:
        node = self.nodes.get(address)
        if node is None:
            endpoint = self.target.login.at(*address)
            node = Node(
                endpoint, self.deadline_s, self._load, probe=PROBE, on_loss=self.doubt,
                on_return=lambda: self._on_return(lambda slot: self._by_slot[slot] is self.nodes.get(address)),
                marker=self._marker(address), delays=self._marks.delays if self._marks else None,
            )  # fmt: skip
            self.nodes[address] = node
            node.connect()
        return node

    def shard_of(self, slot: int) -> str:
        """`host:port` of who decides about a slot; empty when nobody does."""
        node = self._by_slot[slot]
        return "" if node is None else node.shard

    def _marker(self, address: Address) -> Marker | None:
        marks = self._marks
        if marks is None:
            return None
        return Marker(marks.memory, marks.commands, lambda: self._marked_slots(address, marks.memory))

    def _marked_slots(self, address: Address, memory: Memory) -> list[int]:
        """The slots of a node that are known to have a mark, or its first."""
        node = self.nodes.get(address)
        known = [slot for slot in list(memory.marks) if self._by_slot[slot] is node]
        if known or node is None or address not in self._owners:
            return known
        return [self._by_slot.index(node)]

    def _reroute(self, node: Node, slot: int) -> None:
        before, self._by_slot[slot] = self._by_slot[slot], node
        if before is not None and before is not node:
            self._on_return(lambda other: other == slot)

    async def _keep_map(self) -> None:
        while True:
            self._doubted.clear()
            if await self._look():
                self._looked.set()
                self._dismiss()
            await asyncio.sleep(about(REST_S))
            if await within(about(self._rest_s()), self._doubted):
                await asyncio.sleep(random.uniform(0, BEFORE_LOOK_S))

    def _rest_s(self) -> float:
        in_peace = self._owners and all(not self.nodes[owner].breaker.is_open for owner in self._owners)
        if not in_peace:
            return REST_IN_TROUBLE_S
        return SPARE_S if self._spare else REST_IN_PEACE_S

    async def _look(self) -> bool:
        """Ask nodes for the map, first those we are connected to, then those of the URL, until one knows it."""
        self.looks += 1
        for endpoint, ask in self._sources():
            try:
                slots = parse_slots(await ask(), endpoint.address)
            except StoreError as error:
                self._trouble = error
                continue
            if owners_of(slots):
                self._use(slots)
                return True
            self._trouble = StoreError(f"{endpoint} knows no node that owns a slot", "cluster_down")
        return False

    def _sources(self) -> list[tuple[Endpoint, Callable[[], Awaitable[Reply]]]]:
        known = [node for node in self.nodes.values() if not node.breaker.is_open]
        random.shuffle(known)
        connected = [(node.endpoint, lambda node=node: node.ask(SLOTS_COMMAND)) for node in known]
        return [*connected, *((seed, lambda seed=seed: _ask_once(seed)) for seed in self.target.seeds)]

    def _use(self, slots: Owners) -> None:
        before, self._owners = self._owners, owners_of(slots)
        nodes = {owner: self._node_at(owner) for owner in self._owners}
        routes = [None if owner is None else nodes[owner] for owner in slots]
        moved = {slot for slot, node in enumerate(self._by_slot) if node is not None and node is not routes[slot]}
        self._by_slot = routes
        if moved:
            self._on_return(moved.__contains__)
            for node in nodes.values():
                node.look_at_mark_soon()
        self._trouble = StoreError(f"{self.target} has slots without a node; see CLUSTER INFO", "cluster_down")
        now = asyncio.get_running_loop().time()
        self._spare.update(dict.fromkeys(before - self._owners, now))
        for owner in self._owners:
            self._spare.pop(owner, None)

    def _dismiss(self) -> None:
        """Close nodes that have owned nothing, and were of no use, for a while."""
        now = asyncio.get_running_loop().time()
        for address in [address for address, last in self._spare.items() if now - last > SPARE_S]:
            del self._spare[address]
            task = asyncio.create_task(self.nodes.pop(address).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _ask_once(seed: Endpoint) -> Reply:
    link = await open_link(seed, SEED_PATIENCE_S, SEED_PATIENCE_S)
    try:
        return await link.ask(SLOTS_COMMAND)
    finally:
        link.close()
