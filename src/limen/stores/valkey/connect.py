"""Log in with redis-py (TLS, AUTH, HELLO, SELECT) and take its transport over: the one place that knows its insides."""

from __future__ import annotations

import asyncio
from typing import Any

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError

from limen.errors import StoreError
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.link import Link

__all__ = ["open_link"]


async def open_link(endpoint: Endpoint, deadline_s: float, timeout_s: float) -> Link:
    """A link to a server, logged in.

    Args:
        deadline_s: how long callers of the link wait for a reply.
        timeout_s: how long connecting and logging in may take together.

    Raises:
        StoreError: `down` when nobody answers, `refused` when the server will not have us.
    """
    connection = _connection(endpoint, timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            await connection.connect()
        return _take_over(connection, deadline_s)
    except AuthenticationError as error:
        raise StoreError(f"{endpoint} refused the login: {error}; check user and password", "refused") from error
    except (RedisError, OSError, ValueError) as error:
        raise StoreError(f"{endpoint} cannot be reached: {str(error) or type(error).__name__}", "down") from error
    finally:
        await _let_go(connection)


def _connection(endpoint: Endpoint, timeout_s: float) -> Any:
    kind = redis.SSLConnection if endpoint.tls else redis.Connection
    return kind(
        host=endpoint.host,
        port=endpoint.port,
        db=endpoint.database,
        username=endpoint.username,
        password=endpoint.password,
        client_name="limen",
        protocol=2,
        retry=Retry(NoBackoff(), 0),  # its default sends a command again after a lost reply: that counts twice
        socket_timeout=None,  # ours holds; with its own it sends by `asyncio.wait_for`, which loses cancellations
        socket_connect_timeout=timeout_s,
    )


def _take_over(connection: Any, deadline_s: float) -> Link:
    link = Link(asyncio.get_running_loop(), deadline_s)
    link.adopt(connection._writer.transport, connection._writer)
    connection._reader = connection._writer = None
    return link


async def _let_go(connection: Any) -> None:
    """Close what was not taken over."""
    if connection._writer is not None:
        await connection.disconnect(nowait=True)
