"""Tells every two seconds that this process is alive, and hears who else is. Never in the way of anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from limen.admin.records import Gateway, Heard
from limen.admin.repeating import Repeating
from limen.errors import LimenError

__all__ = ["BEAT_S", "Heart", "Others"]

BEAT_S = 2.0
JITTER = 0.25
GOODBYE_S = 1.0
"""Nobody's end waits longer than this for a database that does not answer."""


class Others(Protocol):
    """What a heart needs of `limen.admin.presence.Presence`."""

    async def beat(self, gateway: Gateway) -> Heard: ...
    async def leave(self, gateway_id: str) -> None: ...


class Heart(Repeating):
    """See the module.

    Args:
        others: where the word is left.
        describe: what this process tells of itself now.
        on_heard: is told what was heard.
        on_error: is told of every beat that failed; must not raise.
        interval_s: seconds between two beats, give or take a quarter.
    """

    def __init__(
        self,
        others: Others,
        describe: Callable[[], Gateway],
        on_heard: Callable[[Heard], None],
        on_error: Callable[[Exception], None],
        interval_s: float = BEAT_S,
    ) -> None:
        super().__init__(JITTER)
        self._others = others
        self._describe = describe
        self._on_heard = on_heard
        self._on_error = on_error
        self._interval_s = interval_s
        self._told = False

    async def once(self) -> None:
        try:
            self._told = True
            self._on_heard(await self._others.beat(self._describe()))
        except Exception as error:  # noqa: BLE001 - whatever a database answers, a process must not lose its heart
            self._on_error(error)

    def pause_s(self) -> float:
        return self._interval_s

    async def stop(self) -> None:
        """End, and say goodbye, as far as somebody listens."""
        await super().stop()
        if self._told:
            with contextlib.suppress(LimenError, TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    await self._others.leave(self._describe().id)
