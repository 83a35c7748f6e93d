"""What a gateway process notes about itself: how late its event loop is, what it connects to, what goes wrong."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

__all__ = ["Attempts", "Heart", "Troubles", "now_us"]

TICK_S = 0.001
LATE_S = 0.0012
"""epoll counts whole milliseconds: what is later than one was busy, or not given the processor."""


def now_us() -> int:
    return monotonic_ns() // 1000


class Heart:
    """Beats each millisecond, notes when it could not, and looks at what may have changed meanwhile.

    Args:
        look: state by shard, or anything else that is compared at each beat.
    """

    def __init__(self, look: Callable[[], dict[str, str]]) -> None:
        self.late: list[tuple[int, int]] = []
        """(when it beat at last, how late that was), in microseconds."""
        self.changes: list[tuple[int, str, str]] = []
        """(when, shard, its state from then on: `up`, `down`, or `gone` when it owns nothing any more)."""
        self._look = look
        self._seen: dict[str, str] = {}
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time()
        self._handle: asyncio.TimerHandle | None = None

    def beat(self) -> None:
        late = self._loop.time() - self._next
        if late > LATE_S:
            self.late.append((now_us(), int(late * 1_000_000)))
        found = self._look()
        if found != self._seen:
            at = now_us()
            self.changes += [(at, *item) for item in found.items() if self._seen.get(item[0]) != item[1]]
            self.changes += [(at, shard, "gone") for shard in self._seen if shard not in found]
            self._seen = found
        self._next = self._loop.time() + TICK_S
        self._handle = self._loop.call_at(self._next, self.beat)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()


class Attempts:
    """Every attempt of this process to connect, to any server: (when, `host:port`, whether it was answered)."""

    def __init__(self, loop: Any) -> None:
        self.found: list[tuple[int, str, bool]] = []
        self._connect = loop.create_connection
        loop.create_connection = self._noted

    async def _noted(self, factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        began = now_us()
        answered = False
        try:
            connected = await self._connect(factory, host, port, **options)
            answered = True
            return connected
        finally:
            self.found.append((began, f"{host}:{port}", answered))


class Troubles(logging.Handler):
    """Exceptions that nobody caught, and what was logged as a warning or worse."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.INFO)
        self.unhandled: list[str] = []
        self.lines: list[tuple[int, str, str]] = []
        """(when, logger, message)."""
        self.counts: Counter[str] = Counter()
        logging.getLogger().addHandler(self)
        logging.getLogger("limen").setLevel(logging.INFO)
        loop.set_exception_handler(lambda _, context: self.unhandled.append(_told(context)))

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[record.levelname] += 1
        if record.exc_info and record.exc_info[1] is not None:
            self.unhandled.append(f"{record.getMessage()}\n" + "".join(traceback.format_exception(record.exc_info[1])))
        if len(self.lines) < 10_000:
            self.lines.append((now_us(), record.name, f"{record.levelname}: {record.getMessage()}"))


def _told(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return f"{context.get('message')}\n" + ("" if error is None else "".join(traceback.format_exception(error)))
