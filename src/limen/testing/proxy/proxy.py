"""The proxy itself: faults by name, switched while traffic flows."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from limen.errors import UsageError
from limen.testing.proxy.door import Door
from limen.testing.proxy.place import place_of
from limen.testing.proxy.visit import Visit
from limen.testing.proxy.weather import Counts, Weather

__all__ = ["FaultProxy"]

PATIENCE_S = 10.0


class FaultProxy:
    """Stands in front of a server and does to its connections what networks do. For tests, on POSIX.

    Bytes go through unchanged. Faults add up until `heal()`, may be set from any thread, and are there when the call
    returns. Those about replies need a RESP server; everything else works for any TCP service without TLS or with it.

    Args:
        target: `host:port`, or a store URL that names one host.
        host, port: where it listens; by default on a free port of this machine.
        seed: for all that is left to chance.

    Attributes:
        host, port, url: where to connect; the URL is that of the target with the proxy in its place.
        counts: connections, bytes and replies so far.

    Raises:
        UsageError: the target is not one place.

    Example:
        async with FaultProxy("valkey://127.0.0.1:6379") as proxy, AsyncLimiter(proxy.url, rules) as limiter:
            proxy.black_hole()
            assert (await limiter.check("acme", "search")).degraded
            proxy.heal()
    """

    def __init__(self, target: str | tuple[str, int], *, host: str = "127.0.0.1", port: int = 0, seed: int = 0) -> None:
        self._place = place_of(target)
        self.host, self.port = host, port
        self.counts = Counts()
        self._seed = seed
        self._weather: Weather | None = None
        self._door: Door | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._visits: dict[asyncio.Task[None], Visit] = {}

    @property
    def url(self) -> str:
        return self._place.moved(self.host, self.port)

    @property
    def runs(self) -> bool:
        """Whether it was entered and not left yet."""
        return self._door is not None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._weather = Weather(self._seed)
        self._door = Door(self.host, self.port, self._enter)
        self.port = self._door.port
        self._door.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._door:
            self._door.close()
        tasks = list(self._visits)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loop = self._weather = self._door = None

    @classmethod
    @contextlib.contextmanager
    def in_thread(
        cls, target: str | tuple[str, int], *, host: str = "127.0.0.1", port: int = 0, seed: int = 0
    ) -> Iterator[Self]:
        """The same for tests without an event loop: `with FaultProxy.in_thread(url) as proxy`."""
        proxy = cls(target, host=host, port=port, seed=seed)
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="limen-fault-proxy", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(PATIENCE_S)
            yield proxy
        finally:
            asyncio.run_coroutine_threadsafe(proxy.__aexit__(None, None, None), loop).result(PATIENCE_S)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(PATIENCE_S)
            loop.close()

    def delay(self, seconds: float, jitter: float = 0.0) -> None:
        """Each reply is late by that much, and by up to `jitter` seconds more. The order stays."""
        self._set(delay_s=seconds, jitter_s=jitter)

    def loss(self, percent: float) -> None:
        """So many per cent of what is sent, either way, is lost and sent again after 0.2 s, 0.4 s more, …

        As in TCP: what comes behind it waits.
        """
        self._set(loss=percent / 100)

    def slow_drip(self, bytes_per_s: float) -> None:
        """Each connection gets its replies at this pace, in small pieces."""
        self._set(bytes_per_s=bytes_per_s)

    def drop_reply(self, count: int = 1) -> None:
        """The next replies are swallowed. Those behind them come: each in the place of an earlier one."""
        self._set(to_drop=count)

    def reorder(self, pairs: int = 1) -> None:
        """The next two replies of a connection change places."""
        self._set(to_swap=pairs)

    def black_hole(self) -> None:
        """Nothing passes and nobody gets in, not even a refusal does; `heal()` lets on what was held."""
        self._set(silent=True)
        self._do(lambda door: door.ignore())

    def half_open(self) -> None:
        """Everybody gets in and nobody is ever answered, without an end; `heal()` resets them."""
        self._set(dead=True)
        self._do(lambda _: self._each(Visit.die))

    def refuse(self) -> None:
        """Nobody gets in any more: connections are refused. Those that are there go on."""
        self._do(lambda door: door.refuse())

    def cut(self) -> None:
        """Reset every connection, once (RST)."""
        self._do(lambda _: self._each(Visit.reset))

    def heal(self) -> None:
        """No fault any more. What is late goes on at once."""
        self._do(self._heal)

    def _heal(self, door: Door) -> None:
        self._each(Visit.heal)
        assert self._weather
        self._weather.clear()
        door.open()

    def _set(self, **faults: float | bool) -> None:
        self._do(lambda _: vars(self._weather).update(faults))

    def _each(self, change: Callable[[Visit], None]) -> None:
        for visit in self._visits.values():
            change(visit)

    def _do(self, change: Callable[[Door], None]) -> None:
        """Make a change in the loop where the proxy lives, and return when it is made."""
        if self._door is None or self._loop is None:
            raise UsageError("the proxy does not run: enter it first, `async with` or `with FaultProxy.in_thread(…)`")
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        if _running_loop() is self._loop:
            change(self._door)
            return
        self._loop.call_soon_threadsafe(_settle, done, change, self._door)
        done.result(PATIENCE_S)

    def _enter(self, came: socket.socket) -> None:
        assert self._weather
        visit = Visit(came, (self._place.host, self._place.port), self._weather, self.counts)
        task = asyncio.create_task(visit.run())
        self._visits[task] = visit
        task.add_done_callback(self._visits.pop)


def _settle(done: concurrent.futures.Future[None], change: Callable[[Door], None], door: Door) -> None:
    try:
        change(door)
        done.set_result(None)
    except Exception as error:  # noqa: BLE001 - it is raised where the change was asked for
        done.set_exception(error)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
