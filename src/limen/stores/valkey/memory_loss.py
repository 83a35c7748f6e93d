"""What this process knows of the memory of servers: the marks it has seen on them, and which of them lost it lately."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import NamedTuple

from limen.core.algorithm import AnyLimit
from limen.core.limit import Limit
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.marks import Mark, fresh_id, parse_mark
from limen.stores.valkey.script import Commands

__all__ = ["FIRST_LOOK_S", "LOOK_S", "Marker", "Memory"]

log = logging.getLogger("limen.store")

FIRST_LOOK_S, LOOK_S = 2.0, 10.0
"""How long after the first look at a mark the next comes, for somebody else may know more; and any further one."""
FOREVER_US = 30 * 86_400 * 1_000_000
MOST_MARKS = 4
"""On one server: those of slots that it was given add up."""


class Loss(NamedTuple):
    """A server that lost its memory."""

    commands: Commands
    lost_us: int
    """When, by its own clock."""
    age_us: int
    """How long that was ago at `at_s`, by the clock of this process."""
    at_s: float


class Look(NamedTuple):
    """A question for a mark."""

    slot: int
    known: bytes
    """Which one must be there; empty when there may be none."""
    fresh: bytes
    command: bytes


class Memory:
    """Shared by all connections of a store."""

    def __init__(self) -> None:
        self.marks: dict[int, bytes] = {}
        """The mark that was seen last in each slot that has one."""
        self.young: dict[str, Loss] = {}
        """The servers that lost their memory lately, by `host:port`."""
        self.losses: dict[str, int] = {}
        """How often this process was the one to find that out."""

    def commands(self, commands: Commands, shard: str, ops: Iterable[Op]) -> Commands:
        """What builds the commands for a server: one that lost its memory is told so, as long as it matters."""
        loss = self.young.get(shard) if self.young else None
        if loss is None:
            return commands
        age_us = loss.age_us + (monotonic() - loss.at_s) * 1_000_000
        if age_us > FOREVER_US:
            self.young.pop(shard, None)
            return commands
        return loss.commands if any(age_us < _fills_within_us(op.limit) for op in ops) else commands

    def note(self, commands: Commands, shard: str, look: Look, mark: Mark) -> None:
        """A mark was looked at."""
        self.marks[look.slot] = mark.id
        if look.known and mark.id == look.fresh:
            self.losses[shard] = self.losses.get(shard, 0) + 1
            log.warning("%s has lost its memory; what it does not know begins with a tenth of its tokens", shard)
        before = self.young.get(shard)
        if mark.lost_us and (before is None or before.lost_us < mark.lost_us):
            age_us = mark.now_us - mark.lost_us
            self.young[shard] = Loss(commands.after_loss(mark.lost_us), mark.lost_us, age_us, monotonic())


class Marker:
    """Looks after the mark on one server.

    Args:
        memory: what is known of all.
        commands: builds commands.
        slots: the slots of the server in which a mark may be, those first where one is known to be.
    """

    def __init__(self, memory: Memory, commands: Callable[[], Commands], slots: Callable[[], Sequence[int]]) -> None:
        self._memory = memory
        self._commands = commands
        self._slots = slots
        self._seen: set[int] = set()

    def connected(self) -> None:
        """There is a new connection: what was known of the server has to prove true again. On one that was never lost
        a mark is gone only because somebody deleted it, with everything else, and meant to."""
        self._seen.clear()

    def looks(self, shard: str) -> list[Look]:
        """What to ask the server now."""
        loss = self._memory.young.get(shard)
        return [self._look(slot, loss.lost_us if loss else 0) for slot in self._slots()[:MOST_MARKS]]

    def found(self, shard: str, look: Look, reply: object) -> None:
        """What it answered. A refusal says nothing: it is looked again."""
        try:
            mark = parse_mark(reply)
        except StoreError as error:
            log.debug("the mark of %s could not be looked at: %s", shard, error)
            return
        self._seen.add(look.slot)
        self._memory.note(self._commands(), shard, look, mark)

    def _look(self, slot: int, lost_us: int) -> Look:
        known = b"" if slot in self._seen else self._memory.marks.get(slot, b"")
        fresh = fresh_id()
        return Look(slot, known, fresh, self._commands().mark(slot, known, fresh, lost_us))


def _fills_within_us(limit: AnyLimit) -> float:
    """How long after a loss a bucket that nobody knows says anything, at most."""
    if type(limit) is Limit:
        return limit.full_ticks / limit.ticks_per_us if limit.refills else float("inf")
    seconds = limit.window_s
    return float("inf") if seconds is None else 2_000_000.0 * seconds
