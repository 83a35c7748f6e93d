"""What every shared store for code that blocks does in the same way: all that concerns one key."""

from __future__ import annotations

from collections.abc import Mapping

from limen.core.algorithm import Seen
from limen.core.concurrency import SlotsSeen
from limen.core.delays import Delays
from limen.stores.base import Borrow, Charge, Charged, Lent, Op, Slot
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
from limen.stores.valkey.sync_asking import Asking, Nodes

__all__ = ["SyncOperations"]


class SyncOperations:
    """Builds a command, has it asked, reads the reply.

    Args:
        nodes: who decides.
        commands: what is sent.
        deadline_ms: how long a decision waits.
        memory: what is known of that of the servers.
        delays: how long they took to answer.
    """

    carries = True

    def __init__(
        self, nodes: Nodes, commands: Commands, deadline_ms: float, memory: Memory, delays: dict[str, Delays]
    ) -> None:
        self.on_return: OnReturn | None = None
        """Is called before a server decides again that may have forgotten what it said last."""
        self.memory = memory
        self.delays = delays
        """How long each server took to answer, by `host:port`."""
        self._nodes = nodes
        self._commands = commands
        self._names = commands.names
        self._asking = Asking(nodes, commands.load, deadline_ms / 1000, self.memory)

    @property
    def memory_lost(self) -> Mapping[str, int]:
        """How often this process found that a server had lost its memory, by `host:port`."""
        return self.memory.losses

    def _commands_for(self, op: Op) -> Commands:
        """What builds commands for the server of a bucket."""
        if not self.memory.young:
            return self._commands
        return self.memory.commands(self._commands, self._nodes.node_of(self._key(op)).shard, (op,))

    @property
    def state(self) -> str:
        return self._nodes.state

    @property
    def shards(self) -> Mapping[str, str]:
        """Of each server, by `host:port`, whether it is `up` or `down`."""
        return self._nodes.shards

    def start(self) -> None:
        self._nodes.start()

    def close(self) -> None:
        self._nodes.close()

    def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        reply = self._asking.ask(self._key(op), self._commands_for(op).grant(op, tokens, for_us))
        return parse_seen(reply, [op])[0]

    def charge(self, charge: Charge) -> Charged:
        op = charge.op
        reply = self._asking.ask(self._key(op), self._commands_for(op).charge(charge), many_keys=bool(op.cost))
        return parse_charged(reply, op)

    def beat(self, gateway: str) -> tuple[int, int]:
        return parse_alive(self._asking.ask(self._commands.gateways_key(gateway), self._commands.beat(gateway)))

    def leave(self, gateway: str) -> None:
        self._asking.ask(self._commands.gateways_key(gateway), self._commands.leave(gateway))

    def borrow(self, borrow: Borrow) -> Lent:
        return parse_lent(self._asking.ask(self._key(borrow.op), self._commands_for(borrow.op).borrow(borrow)))

    def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        key, commands = self._names.key(identity, colocate), self._commands
        if loss := self.memory.young.get(self._nodes.node_of(key).shard) if self.memory.young else None:
            commands = loss.commands
        self._asking.ask(key, commands.reset(identity, rule, colocate))

    def acquire(self, slot: Slot) -> SlotsSeen:
        return parse_slots(self._asking.ask(self._names.slots_key(slot), self._commands.acquire(slot)))

    def renew(self, slot: Slot) -> bool:
        return parse_bool(self._asking.ask(self._names.slots_key(slot), self._commands.renew(slot)))

    def release(self, slot: Slot) -> bool:
        return parse_bool(self._asking.ask(self._names.slots_key(slot), self._commands.release(slot)))

    def _key(self, op: Op) -> bytes:
        return self._names.key(op.identity, op.colocate)
