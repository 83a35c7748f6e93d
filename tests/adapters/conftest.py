"""Real servers and limiters for adapters."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
import uvicorn

from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from limen.testing import ManualClock

Serve = Callable[..., Awaitable[str]]
MakeLimiter = Callable[..., Awaitable[AsyncLimiter]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(app)`: the app on a real uvicorn on a free port; gives its URL."""
    async with AsyncExitStack() as stack:

        async def start(app: Any, **options: Any) -> str:
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            config = uvicorn.Config(app, log_config=None, proxy_headers=False, server_header=False, **options)
            config.load()
            server = uvicorn.Server(config)
            server.lifespan = config.lifespan_class(config)
            await server.startup(sockets=[listener])
            stack.push_async_callback(server.shutdown, sockets=[listener])
            return f"http://127.0.0.1:{listener.getsockname()[1]}"

        yield start


@pytest.fixture
async def make_limiter(clock: ManualClock) -> AsyncIterator[MakeLimiter]:
    """`await make_limiter("2/minute")`: a limiter with one rule, or with the rules given."""
    async with AsyncExitStack() as stack:

        async def make(*rules: Rule | str, **options: Any) -> AsyncLimiter:
            named = [Rule("default", limit=rule) if isinstance(rule, str) else rule for rule in rules]
            return await stack.enter_async_context(AsyncLimiter("memory://", named, clock=clock, **options))

        yield make


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as client:
        yield client
