"""Connections belong to one event loop; a limiter may be used from several, one after another or in threads.

Asking which loop runs costs a tenth of a whole decision in some versions of Python. A thread runs one loop at a time,
so it is enough to know the thread, and that the loop it used last is the one that runs now.
"""

from __future__ import annotations

from _thread import get_ident
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

__all__ = ["Connected", "PerLoop"]


class Connected(Protocol):
    """What lives on one event loop."""

    loop: AbstractEventLoop

    async def start(self) -> None:
        """Begin to connect; returns when connected, or after a second."""

    async def begin(self) -> None:
        """Begin to connect; returns when connected, or when it is clear that this takes longer."""

    async def close(self) -> None: ...

    @property
    def state(self) -> str:
        """`up` or `down`."""

    @property
    def shards(self) -> dict[str, str]:
        """The same of each server, by `host:port`."""


T = TypeVar("T", bound=Connected)


class PerLoop(Generic[T]):
    """One of a kind for each event loop.

    Args:
        make: makes one, for the running loop.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self.by_thread: dict[int, T] = {}
        """What each thread used last. It is good as long as its loop runs."""
        self._by_loop: dict[AbstractEventLoop, T] = {}
        self._make = make

    @property
    def state(self) -> str:
        """`up` when it is so on any loop."""
        return "up" if any(each.state == "up" for each in list(self._by_loop.values())) else "down"

    @property
    def shards(self) -> dict[str, str]:
        """Of each server, by `host:port`, whether it is `up` on any loop, or `down`."""
        found: dict[str, str] = {}
        for each in list(self._by_loop.values()):
            found.update({shard: state for shard, state in each.shards.items() if found.get(shard) != "up"})
        return found

    def here(self) -> T:
        """The one of this loop; it may have to be made, and is not connected then."""
        loop = get_running_loop()
        found = self._by_loop.get(loop)
        if found is None:
            self._forget_ended()
            found = self._by_loop[loop] = self._make()
        return found

    async def start(self) -> None:
        found = self.here()
        await found.start()
        self.by_thread[get_ident()] = found

    async def begun(self) -> T:
        """The one of this loop. If nobody has started it, the first question waits for the connection."""
        found = self.here()
        await found.begin()
        self.by_thread[get_ident()] = found
        return found

    async def close(self) -> None:
        """Hang up what belongs to this loop."""
        found = self._by_loop.pop(get_running_loop(), None)
        self.by_thread.pop(get_ident(), None)
        if found is not None:
            await found.close()

    def _forget_ended(self) -> None:
        for loop in [each for each in list(self._by_loop) if each.is_closed()]:
            self._by_loop.pop(loop, None)
        for thread in [each for each, found in list(self.by_thread.items()) if found.loop.is_closed()]:
            self.by_thread.pop(thread, None)
