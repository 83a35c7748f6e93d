"""A connection under virtual time: an event loop without sockets, and a server that serves one question at a time."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from limen.stores.valkey.link import Link

__all__ = ["VirtualLoop", "VirtualServer", "connected"]

WAY_S = 0.0001
"""How long bytes are on their way."""


class VirtualLoop:
    """Runs what is due, in order; time jumps from one to the next."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._due: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        handle = asyncio.TimerHandle(when, callback, args, self, context)  # type: ignore[arg-type]
        heapq.heappush(self._due, (max(when, self.now), next(self._order), handle))
        return handle

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        return self.call_at(self.now, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is skipped when its time comes."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise AssertionError(context)

    def run(self, seconds: float) -> None:
        """Everything that is due within that time."""
        ends = self.now + seconds
        while self._due and self._due[0][0] <= ends:
            self.now, _, handle = heapq.heappop(self._due)
            if not handle.cancelled():
                handle._run()
        self.now = ends


class VirtualServer:
    """What is written to it is answered in order.

    Args:
        loop: whose time it is.
        service_s: how long it works on one question.
        quota: of each period of so many seconds it may work for so long, and stands still when that is spent.
    """

    def __init__(self, loop: VirtualLoop, service_s: float, quota: tuple[float, float] = (1.0, 1.0)) -> None:
        self.service_s = service_s
        self.link: Link | None = None
        self._loop = loop
        self._budget_s, self._period_s = quota
        self._free_at = loop.now
        self._period = -1
        self._spent_s = 0.0

    def write(self, data: bytes) -> None:
        for _ in range(len(data)):
            self._free_at = self._allowed(max(self._free_at, self._loop.now + WAY_S)) + self.service_s
            self._loop.call_at(self._free_at + WAY_S, self._reply)

    def pause(self, seconds: float) -> None:
        """It does nothing for so long."""
        self._free_at = max(self._free_at, self._loop.now) + seconds

    def set_protocol(self, protocol: Any) -> None:
        self.link = protocol

    def is_reading(self) -> bool:
        return True

    def abort(self) -> None:
        assert self.link is not None
        self.link.connection_lost(None)

    def _allowed(self, moment: float) -> float:
        """When it may begin with one more question."""
        period = int(moment / self._period_s)
        if period > self._period:
            self._period, self._spent_s = period, 0.0
        if self._spent_s + self.service_s > self._budget_s:
            self._period, self._spent_s = self._period + 1, 0.0
        self._spent_s += self.service_s
        return max(moment, self._period * self._period_s)

    def _reply(self) -> None:
        if self.link is not None:
            self.link.data_received(b":1\r\n")


def connected(loop: VirtualLoop, server: VirtualServer, deadline_s: float = 0.005) -> Link:
    """A link to the server; one byte is one question."""
    link = Link(loop, deadline_s)  # type: ignore[arg-type]
    link.adopt(server)  # type: ignore[arg-type]
    return link
