"""One request over several slots of a cluster: asked in parts, charged everywhere or nowhere (`split` says how)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from secrets import token_bytes

from limen.core.algorithm import Seen
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.cluster import Cluster
from limen.stores.valkey.errand import Errand
from limen.stores.valkey.giving import Givings
from limen.stores.valkey.memory_loss import Memory
from limen.stores.valkey.script import Commands, parse_seen
from limen.stores.valkey.split import KeysApart, Outcome, Part, by_key, give_back, looking, merged, passed, spends

__all__ = ["Apart"]

PATIENCE_S = 5.0
"""How long what is to be given back waits for its node; the server remembers for ten seconds what it took."""


class Taking:
    """A part of a request that is asked, and what comes of it."""

    __slots__ = ("errand", "outcome", "part", "undo")

    def __init__(self, part: Part, undo: bytes, errand: Errand) -> None:
        self.part = part
        self.undo = undo
        self.errand = errand
        self.outcome: Outcome = ()

    def send(self) -> None:
        try:
            self.errand.send()
        except StoreError as error:
            self.outcome = error

    async def read(self) -> None:
        if isinstance(self.outcome, StoreError):
            return
        try:
            self.outcome = parse_seen(await self.errand.reply(), self.part.ops)
        except StoreError as error:
            self.outcome = error

    @property
    def moving(self) -> bool:
        """Whether its slot is being moved, and decides only about single keys."""
        return isinstance(self.outcome, KeysApart)

    @property
    def passed(self) -> bool:
        return not isinstance(self.outcome, StoreError) and passed(self.part.ops, self.outcome)


class Apart:
    """Takes from several slots.

    Args:
        cluster: where to ask.
        commands: what is sent.
        givings: who keeps what is given back on its way.
        memory: which servers lost theirs.
    """

    def __init__(self, cluster: Cluster, commands: Commands, givings: Givings, memory: Memory) -> None:
        self._cluster = cluster
        self._commands = commands
        self._givings = givings
        self._memory = memory

    async def take(self, parts: Sequence[Part], count: int) -> Sequence[Seen]:
        """What was seen, in the order of the request. It goes on without its caller, to give back what it took.

        Raises:
            StoreError: a part was not decided.
        """
        task = asyncio.create_task(self._take(parts, count))
        self._givings.keep(task)
        return await asyncio.shield(task)

    async def _take(self, parts: Sequence[Part], count: int) -> Sequence[Seen]:
        for part in parts:
            self._cluster.node_of(part.slot).check()  # nothing is taken elsewhere when a part cannot be asked
        undo = token_bytes(16) if any(map(spends, parts)) else b""
        takings = await self._asked([self._taking(part, undo) for part in parts])
        takings = await self._asked_by_key(takings)
        outcomes = [taking.outcome for taking in takings]
        for at, kept in give_back([taking.part for taking in takings], outcomes).items():
            self._give_back(takings[at], kept)
        seens: list[Sequence[Seen]] = []
        for outcome in outcomes:
            if isinstance(outcome, StoreError):
                raise outcome
            seens.append(outcome)
        return merged([taking.part for taking in takings], seens, count)

    def _taking(self, part: Part, undo: bytes) -> Taking:
        one_key = not undo and len(by_key(part, self._key)) == 1
        return Taking(part, undo, Errand(self._cluster, part.slot, self._take_command(part, undo), one_key=one_key))

    def _take_command(self, part: Part, undo: bytes) -> bytes:
        shard = self._cluster.shard_of(part.slot)
        return self._memory.commands(self._commands, shard, part.ops).take(part.ops, undo)

    async def _asked(self, takings: list[Taking]) -> list[Taking]:
        """All leave in one turn of the event loop."""
        try:
            for taking in takings:
                taking.send()
            for taking in takings:
                await taking.read()
        finally:
            for taking in takings:
                taking.errand.drop()
        return takings

    async def _asked_by_key(self, takings: list[Taking]) -> list[Taking]:
        """Ask again where a slot is being moved: for each key alone, and without a record, which would be a second
        key. So they are asked last, and only look when the request is denied already."""
        rest = [taking for taking in takings if not taking.moving]
        if len(rest) == len(takings):
            return takings
        pieces = [piece for taking in takings if taking.moving for piece in by_key(taking.part, self._key)]
        if not all(taking.passed for taking in rest):
            pieces = [looking(piece) for piece in pieces]
        return rest + await self._asked([self._taking(piece, b"") for piece in pieces])

    def _give_back(self, taking: Taking, kept: Sequence[Op]) -> None:
        if taking.errand.node is not None and spends(taking.part):
            self._givings.give(self._undo(taking, kept))

    async def _undo(self, taking: Taking, kept: Sequence[Op]) -> None:
        """Give back what a part took, but for what it keeps. That works once, so it may be asked twice.

        Raises:
            StoreError: it may not have been given back.
        """
        node = taking.errand.node
        assert node is not None
        if not taking.undo:
            raise StoreError("its slot is being moved to another node", "moved", node.shard)
        command = self._commands.undo(taking.part.ops, taking.undo, kept)
        errand = Errand(self._cluster, taking.part.slot, command, one_key=False, urgent=True)
        try:
            loads, answer = node.loads, node.tell(command)  # behind the take, if that is on its way still
            await errand.settled(node, loads, await answer)
        except StoreError:
            await node.ready(PATIENCE_S)
            await errand.run()

    def _key(self, op: Op) -> bytes:
        return self._commands.names.key(op.identity, op.colocate)
