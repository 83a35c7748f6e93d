"""The shared store for code that blocks, over the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from limen.core.algorithm import Seen
from limen.core.delays import Delays
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.endpoint import Endpoint, Target
from limen.stores.valkey.memory_loss import Marker, Memory
from limen.stores.valkey.returning import tell
from limen.stores.valkey.script import Commands, grouped, parse_seen
from limen.stores.valkey.split import KeysApart, Part, split
from limen.stores.valkey.sync_cluster import SyncCluster
from limen.stores.valkey.sync_each import take_each
from limen.stores.valkey.sync_keeper import DEFAULT_MAX_CONNECTIONS
from limen.stores.valkey.sync_node import SyncNode
from limen.stores.valkey.sync_operations import SyncOperations
from limen.stores.valkey.sync_parts import take_by_key, take_in_parts
from limen.stores.valkey.sync_pile import Answer
from limen.stores.valkey.topology import slot_of

__all__ = ["ValkeyClusterStore"]

APART = KeysApart("several slots decide", "moved")


class ValkeyClusterStore(SyncOperations):
    """Buckets in a cluster. See `ValkeyStore` for the arguments; the connections are counted for each node."""

    def __init__(
        self, target: Target, commands: Commands, deadline_ms: float, max_connections: int = DEFAULT_MAX_CONNECTIONS
    ) -> None:
        deadline_s = deadline_ms / 1000

        memory, delays = Memory(), dict[str, Delays]()

        def make_node(at: Endpoint, troubled: Callable[[], None], returned: Callable[[], None]) -> SyncNode:
            marker = Marker(memory, lambda: self._commands, lambda: cluster.marked_slots(at.address, memory.marks))
            node = SyncNode(
                str(at), lambda: at, deadline_s, commands.load, max_connections,
                must_be_primary=False, troubled=troubled, returned=returned, marker=marker, delays=delays,
            )  # fmt: skip
            node.endpoint = at
            return node

        cluster = SyncCluster(target, make_node, self._returned)
        super().__init__(cluster, commands, deadline_ms, memory, delays)

    def _returned(self, slots: Callable[[int], bool]) -> None:
        key = self._names.key
        tell(self.on_return, lambda identity, label: slots(slot_of(key(identity, label))))

    def atomic(self, ops: Sequence[Op]) -> bool:
        return len(self._parts(ops)) == 1

    def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        parts = self._parts(ops)
        if len(parts) > 1:
            return take_in_parts(self._asking, self._commands, parts)
        many_keys = len(ops) > 1 and len(grouped(ops)) > 1
        try:
            reply = self._asking.ask(self._key(ops[0]), self._commands_for(ops[0]).take(ops), many_keys=many_keys)
        except KeysApart:
            return take_by_key(self._asking, self._commands, parts[0], monotonic() + self._asking.deadline_s)
        return parse_seen(reply, ops)

    def take_each(self, questions: Sequence[Sequence[Op]]) -> list[Answer]:
        """`take` for each question, in one round trip to each node: what was found, or why there is no answer."""
        together = [place for place, ops in enumerate(questions) if self.atomic(ops)]
        found = take_each(self._asking, self._commands, [questions[place] for place in together])
        answers = dict(zip(together, found, strict=True))
        for place, ops in enumerate(questions):
            if isinstance(answers.get(place, APART), KeysApart):
                answers[place] = self._taken(ops)
        return [answers[place] for place in range(len(questions))]

    def _taken(self, ops: Sequence[Op]) -> Answer:
        try:
            return self.take(ops)
        except StoreError as error:
            return error

    def _parts(self, ops: Sequence[Op]) -> list[Part]:
        return split(ops, lambda op: slot_of(self._key(op)))
