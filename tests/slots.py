"""Slots of limiters of any kind, asked for in one way."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from limen.core.decision import Decision
from limen.engine.async_slot import AsyncSlot

__all__ = ["enter", "leave", "renew", "slot_of", "tried"]


@asynccontextmanager
async def slot_of(door: Any, client: str = "acme", rule: str | None = None) -> AsyncIterator[Any]:
    """The block of a slot; under the first rule when none is named."""
    slot = _slot(door, client, rule)
    if isinstance(slot, AsyncSlot):
        async with slot:
            yield slot
    else:
        with slot:
            yield slot


async def tried(door: Any, client: str = "acme", rule: str | None = None) -> Decision:
    """What a block is told that does nothing."""
    async with slot_of(door, client, rule) as slot:
        decision: Decision = slot.decision
    return decision


async def enter(door: Any, client: str = "acme", rule: str | None = None) -> Any:
    """A slot whose block has begun, and ends when the test says so, or never, as that of a holder that died."""
    slot = _slot(door, client, rule)
    return await (slot.__aenter__() if isinstance(slot, AsyncSlot) else _at_once(slot.__enter__()))


async def leave(slot: Any) -> None:
    """Its block ends."""
    await (
        slot.__aexit__(None, None, None) if isinstance(slot, AsyncSlot) else _at_once(slot.__exit__(None, None, None))
    )


async def renew(slot: Any) -> bool:
    answer = slot.renew()
    return bool(await answer if inspect.isawaitable(answer) else answer)


def _slot(door: Any, client: str, rule: str | None) -> Any:
    return door.limiter.slot(client, rule or door.limiter.ruleset.rules[0].id)


async def _at_once(answer: Any) -> Any:
    return answer
