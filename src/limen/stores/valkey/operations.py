"""What every shared store for coroutines does in the same way: all that concerns one key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from limen.core.algorithm import Seen
from limen.core.concurrency import SlotsSeen
from limen.core.delays import Delays
from limen.stores.base import Borrow, Charge, Charged, Lent, Op, Slot
from limen.stores.valkey.link import Reply
from limen.stores.valkey.memory_loss import Memory
from limen.stores.valkey.returning import OnReturn
from limen.stores.valkey.script import (
    Commands,
    parse_alive,
    parse_bool,
    parse_charged,
    parse_lent,
    parse_seen,
    parse_slots,
)

__all__ = ["Operations"]


class Operations(ABC):
    """Builds a command, has it asked, reads the reply.

    Args:
        commands: what is sent.
    """

    carries = True

    def __init__(self, commands: Commands) -> None:
        self.on_return: OnReturn | None = None
        """Is called before a server decides again that may have forgotten what it said last."""
        self.memory = Memory()
        self.delays: dict[str, Delays] = {}
        """How long each server took to answer, by `host:port`."""
        self._commands = commands

    @property
    def memory_lost(self) -> Mapping[str, int]:
        """How often this process found that a server had lost its memory, by `host:port`."""
        return self.memory.losses

    @abstractmethod
    def _shard_of(self, key: bytes) -> str:
        """`host:port` of the server that decides about a key; empty when nobody knows."""

    def _commands_for(self, op: Op) -> Commands:
        """What builds commands for the server of a bucket."""
        if not self.memory.young:
            return self._commands
        return self.memory.commands(self._commands, self._shard_of(self._key(op)), (op,))

    @abstractmethod
    async def _ask(self, key: bytes, command: bytes, *, one_key: bool = True) -> Reply:
        """The reply to a command about one key, or several in its slot, which is no error."""

    async def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        reply = await self._ask(self._key(op), self._commands_for(op).grant(op, tokens, for_us))
        return parse_seen(reply, (op,))[0]

    async def charge(self, charge: Charge) -> Charged:
        op = charge.op
        reply = await self._ask(self._key(op), self._commands_for(op).charge(charge), one_key=not op.cost)
        return parse_charged(reply, op)

    async def beat(self, gateway: str) -> tuple[int, int]:
        return parse_alive(await self._ask(self._commands.gateways_key(gateway), self._commands.beat(gateway)))

    async def leave(self, gateway: str) -> None:
        await self._ask(self._commands.gateways_key(gateway), self._commands.leave(gateway))

    async def borrow(self, borrow: Borrow) -> Lent:
        return parse_lent(await self._ask(self._key(borrow.op), self._commands_for(borrow.op).borrow(borrow)))

    async def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        key, commands = self._commands.names.key(identity, colocate), self._commands
        if loss := self.memory.young.get(self._shard_of(key)) if self.memory.young else None:
            commands = loss.commands
        await self._ask(key, commands.reset(identity, rule, colocate))

    async def acquire(self, slot: Slot) -> SlotsSeen:
        return parse_slots(await self._ask(self._slots_key(slot), self._commands.acquire(slot)))

    async def renew(self, slot: Slot) -> bool:
        return parse_bool(await self._ask(self._slots_key(slot), self._commands.renew(slot)))

    async def release(self, slot: Slot) -> bool:
        return parse_bool(await self._ask(self._slots_key(slot), self._commands.release(slot)))

    def _key(self, op: Op) -> bytes:
        return self._commands.names.key(op.identity, op.colocate)

    def _slots_key(self, slot: Slot) -> bytes:
        return self._commands.names.slots_key(slot)
