"""The shared store for coroutines, over the nodes of a cluster."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Mapping, Sequence

from limen.core.algorithm import Seen
from limen.stores.base import Op
from limen.stores.valkey.apart import Apart
from limen.stores.valkey.cluster import Cluster, Marks
from limen.stores.valkey.endpoint import Target
from limen.stores.valkey.errand import Errand
from limen.stores.valkey.giving import Givings
from limen.stores.valkey.link import Reply
from limen.stores.valkey.operations import Operations
from limen.stores.valkey.per_loop import PerLoop
from limen.stores.valkey.returning import tell
from limen.stores.valkey.script import Commands, parse_seen
from limen.stores.valkey.split import KeysApart, by_key, split
from limen.stores.valkey.topology import slot_of

__all__ = ["AsyncClusterStore"]


class AsyncClusterStore(Operations):
    """Buckets in a cluster of Valkey or Redis. See `AsyncValkeyStore` for the arguments."""

    def __init__(self, target: Target, commands: Commands, deadline_ms: float) -> None:
        super().__init__(commands)
        self._target = target
        self._deadline_s = deadline_ms / 1000
        self._clusters = PerLoop(self._open)
        self.givings = Givings()

    @property
    def state(self) -> str:
        return self._clusters.state

    @property
    def shards(self) -> Mapping[str, str]:
        """Of each primary, by `host:port`, whether it is `up` or `down`."""
        return self._clusters.shards

    @property
    def cluster(self) -> Cluster:
        """The nodes, as this event loop sees them."""
        return self._clusters.here()

    async def start(self) -> None:
        await self._clusters.start()

    async def close(self) -> None:
        await self.givings.finish(self._deadline_s)
        await self._clusters.close()

    async def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        if len(ops) == 1:
            return parse_seen(await self._ask(self._key(ops[0]), self._commands_for(ops[0]).take(ops)), ops)
        cluster = await self._here()
        parts = split(ops, self._slot)
        if len(parts) == 1:
            try:
                return await self._take_at_once(cluster, ops)
            except KeysApart:
                parts = by_key(parts[0], self._key)
        return await Apart(cluster, self._commands, self.givings, self.memory).take(parts, len(ops))

    def atomic(self, ops: Sequence[Op]) -> bool:
        """Whether they lie in one slot."""
        slot = self._slot(ops[0])
        return all(self._slot(op) == slot for op in ops[1:])

    async def _ask(self, key: bytes, command: bytes, *, one_key: bool = True) -> Reply:
        cluster = await self._here()
        return await Errand(cluster, slot_of(key), command, one_key=one_key).run()

    async def _take_at_once(self, cluster: Cluster, ops: Sequence[Op]) -> Sequence[Seen]:
        one_key = len({(op.identity, op.colocate) for op in ops}) == 1
        errand = Errand(cluster, self._slot(ops[0]), self._commands_for(ops[0]).take(ops), one_key=one_key)
        return parse_seen(await errand.run(), ops)

    async def _here(self) -> Cluster:
        cluster = self._clusters.by_thread.get(get_ident())
        return cluster if cluster is not None and cluster.loop.is_running() else await self._clusters.begun()

    def _slot(self, op: Op) -> int:
        return slot_of(self._key(op))

    def _open(self) -> Cluster:
        marks = Marks(self.memory, lambda: self._commands, self.delays)
        return Cluster(self._target, self._deadline_s, self._commands.load, self._returned, marks)

    def _shard_of(self, key: bytes) -> str:
        return self._clusters.here().shard_of(slot_of(key))

    def _returned(self, slots: Callable[[int], bool]) -> None:
        key = self._commands.names.key
        tell(self.on_return, lambda identity, label: slots(slot_of(key(identity, label))))
