"""HTTP servers of one process: bind first, say why when that fails, and stop together."""

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

__all__ = ["serving", "stop_signal"]

GRACE_S = 10
"""How long requests in progress may take when the server is told to stop."""


class _Server(uvicorn.Server):
    """One of several servers of this process: the process, not each server, listens to signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(*apps: tuple[Any, Listen, socket.socket]) -> AsyncIterator[None]:
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
        await asyncio.gather(*tasks)


def stop_signal() -> asyncio.Event:
    """An event that SIGINT or SIGTERM sets. Taken before anything else starts, no signal comes too early."""
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    return told


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
