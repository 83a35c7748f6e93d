"""What is done to bytes on their way, now: set by a test, read by every pipe."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from random import Random

__all__ = ["Counts", "Weather"]

RETRANSMISSION_S = 0.2
"""The least that TCP waits before it sends again what got lost (Linux, TCP_RTO_MIN); doubled each time."""


@dataclass
class Counts:
    """What a proxy has seen."""

    connections: int = 0
    """That were let in, ever."""
    open: int = 0
    """That are there now."""
    bytes_in: int = 0
    """Sent on to the target."""
    bytes_out: int = 0
    """Sent back."""
    replies: int = 0
    """RESP replies sent back."""
    dropped: int = 0
    """RESP replies swallowed."""
    swapped: int = 0
    """Pairs of RESP replies that changed places."""


class Weather:
    """Faults of the moment. All draws come from one seeded source."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.delay_s = 0.0
        self.jitter_s = 0.0
        self.loss = 0.0
        self.bytes_per_s: float | None = None
        self.to_drop = 0
        self.to_swap = 0
        self.silent = False
        """Nothing passes; it is held."""
        self.dead = False
        """Whoever is there or comes now is never heard again."""
        self._changed = asyncio.Event()

    def clear(self) -> None:
        """Fair weather: whoever waits goes on at once."""
        self.delay_s = self.jitter_s = self.loss = 0.0
        self.bytes_per_s = None
        self.to_drop = self.to_swap = 0
        self.silent = self.dead = False
        self._changed.set()
        self._changed = asyncio.Event()

    def late_s(self) -> float:
        """How late the next reply is, seconds."""
        return self.delay_s + self.chance.uniform(0, self.jitter_s)

    def lost_s(self) -> float:
        """How long it takes until the next bytes arrive that may have got lost, seconds."""
        late_s, wait_s = 0.0, RETRANSMISSION_S
        while self.loss and self.chance.random() < self.loss:
            late_s += wait_s
            wait_s *= 2
        return late_s

    async def wait_until(self, moment: float) -> None:
        """Until that moment of the loop's clock, and for as long as nothing passes; or until fair weather."""
        changed = self._changed
        left = moment - asyncio.get_running_loop().time()
        if left > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), left)
        while self.silent:
            await self._changed.wait()
