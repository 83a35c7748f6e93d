"""How long to wait, so that many processes do not do the same at the same moment.

Attempts that follow a failure are spread with full jitter (Marc Brooker, "Exponential Backoff and Jitter", 2015).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

__all__ = ["Pace", "about", "look", "pause_s", "within"]

SHORTEST_S, FIRST_S, LONGEST_S = 0.02, 0.2, 0.5
"""Short enough that all gateways find a server within half a second of each other."""


def pause_s(failures: int) -> float:
    """How long to wait after so many attempts that failed, one or more."""
    return random.uniform(SHORTEST_S, min(FIRST_S * 2.0 ** min(failures - 1, 8), LONGEST_S))


def about(seconds: float) -> float:
    """Half as long, up to half as long again."""
    return random.uniform(0.5, 1.5) * seconds


def look(future: asyncio.Future[Any]) -> BaseException | None:
    """What went wrong; having looked, nobody else has to."""
    return asyncio.CancelledError() if future.cancelled() else future.exception()


async def within(patience_s: float, event: asyncio.Event) -> bool:
    """Whether the event happens before the patience ends."""
    try:
        async with asyncio.timeout(patience_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


class Pace:
    """No more than so many in any second, whatever happens.

    Args:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        self._latest: deque[float] = deque(maxlen=most)

    def wait_s(self, now: float) -> float:
        """Take the next turn; how long until it comes. `now` is in seconds and never goes back."""
        turn = now
        if len(self._latest) == self._latest.maxlen:
            turn = max(now, self._latest[0] + 1.0)
        self._latest.append(turn)
        return turn - now
