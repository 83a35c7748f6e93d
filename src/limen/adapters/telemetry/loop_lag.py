"""How late the event loop of this process is: work that holds it up makes every answer late, and no store can help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["EVERY_S", "measure_lag"]

EVERY_S = 0.1
"""Between two measurements. One of them sees a stall whole, or the rest of it."""


async def measure_lag(seen: Callable[[float], None], every_s: float = EVERY_S) -> None:
    """Tell again and again by how many seconds the loop came late; ends when it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + every_s
        await asyncio.sleep(every_s)
        seen(max(0.0, loop.time() - due))
