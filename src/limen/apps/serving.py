"""HTTP servers of one process: bind first, say why when that fails, and stop together.

Told to stop, a process drains: it says so and goes on serving for a moment, so that traffic can go elsewhere. Then it
accepts nothing more, and requests in progress end. Told twice, it ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import uvicorn

from limen.apps.http_protocol import BoundedHttpProtocol
from limen.apps.settings import Listen
from limen.errors import SettingsError

__all__ = ["Stop", "serving", "stop_signal"]

GRACE_S = 10
"""How long requests in progress may take when the server is told to stop."""


class _Server(uvicorn.Server):
    """One of several servers of this process: the process, not each server, listens to signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def hang_up(self) -> None:
        """End without waiting for anybody."""
        self.force_exit = True
        for listener in self.servers:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()


class Stop:
    """What a process was told by SIGINT and SIGTERM."""

    def __init__(self) -> None:
        self._told = asyncio.Event()
        self._hurry = asyncio.Event()

    def tell(self) -> None:
        """Told once it stops, told again it ends at once."""
        (self._hurry if self._told.is_set() else self._told).set()

    async def wait(self) -> None:
        """Wait until it is told to stop."""
        await self._told.wait()

    async def hurried(self, seconds: float | None = None) -> bool:
        """Wait so long, or until it is told to end at once; whether it was."""
        try:
            async with asyncio.timeout(seconds):
                return await self._hurry.wait()
        except TimeoutError:
            return False


@contextlib.asynccontextmanager
async def serving(stop: Stop, *apps: tuple[Any, Listen, socket.socket]) -> AsyncIterator[None]:
    """Serve each app on its socket while the block runs; then let requests in progress end."""
    servers = [_Server(_config(app, listen)) for app, listen, _ in apps]
    tasks = [
        asyncio.create_task(server.serve([listener]), name=f"server {listen.url}")
        for server, (_, listen, listener) in zip(servers, apps, strict=True)
    ]
    try:
        await _started(servers, tasks)
        yield
    finally:
        for server in servers:
            server.should_exit = True
        await _ended(servers, tasks, stop)


def stop_signal() -> Stop:
    """What SIGINT and SIGTERM tell. Taken before anything else starts, no signal comes too early."""
    stop = Stop()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.tell)
    return stop


async def _ended(servers: Sequence[_Server], tasks: Sequence[asyncio.Task[None]], stop: Stop) -> None:
    """Wait until requests in progress have ended, unless somebody is in a hurry."""
    hurry = asyncio.create_task(stop.hurried(), name="hurry")
    ended: asyncio.Future[Any] = asyncio.gather(*tasks)
    either: list[asyncio.Future[Any]] = [hurry, ended]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        for server in servers:
            server.hang_up()
    hurry.cancel()
    await ended


async def _started(servers: Sequence[uvicorn.Server], tasks: Sequence[asyncio.Task[None]]) -> None:
    while not all(server.started for server in servers):
        done = [task for task in tasks if task.done()]
        if done:
            await done[0]
            raise SettingsError("a server stopped while it started; its log says why")
        await asyncio.sleep(0.005)


def _config(app: Any, listen: Listen) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedHttpProtocol,
        ws="websockets-sansio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",  # its warnings are one line for each odd request that anybody sends
        access_log=False,
        server_header=False,
        date_header=False,  # the upstream's counts; our own answers get theirs from `Dated`
        proxy_headers=False,  # whom to believe is our own setting, and only one piece may decide it
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=listen.certfile,
        ssl_keyfile=listen.keyfile,
    )
