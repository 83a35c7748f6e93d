"""Log in with redis-py (TLS, AUTH, HELLO, SELECT) and take its transport over: the one place that knows its insides.

A name is looked up anew for each connection, so that a server that moved is found.
"""

from __future__ import annotations

import asyncio
from typing import Any

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError, RedisError, ResponseError

from limen.errors import StoreError
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.link import Link
from limen.stores.valkey.login import login_options
from limen.stores.valkey.replies import classify, store_error

__all__ = ["open_link"]


async def open_link(endpoint: Endpoint, deadline_s: float, timeout_s: float) -> Link:
    """A link to a server, logged in.

    Args:
        deadline_s: how long callers of the link wait for a reply.
        timeout_s: how long connecting and logging in may take together.

    Raises:
        StoreError: `down` when nobody answers, `login` when the server will not have us, `loading` not yet.
    """
    connection, shard = None, str(endpoint.address)
    try:
        async with asyncio.timeout(timeout_s):
            connection = _connection(endpoint, timeout_s)
            await connection.connect()
        return _take_over(connection, deadline_s, shard)
    except AuthenticationError as error:
        raise StoreError(f"{endpoint} refused the login: {error}; check user and password", "login", shard) from error
    except ResponseError as error:
        raise _refused(error, endpoint, shard) from error
    except BusyLoadingError as error:
        raise StoreError(f"{endpoint} is loading its data", "loading", shard) from error
    except (RedisError, OSError, ValueError) as error:
        raise StoreError(f"{endpoint} cannot be reached: {_reason(error)}", "down", shard) from error
    finally:
        await _let_go(connection)


def _refused(error: ResponseError, endpoint: Endpoint, shard: str) -> StoreError:
    """A server that answers, and why it does not let us in: such as a script that does not end."""
    refusal = classify(str(error))
    if refusal.code:
        return store_error(refusal, str(endpoint), shard)
    return StoreError(f"{endpoint} cannot be reached: {_reason(error)}", "down", shard)


def _connection(endpoint: Endpoint, timeout_s: float) -> Any:
    kind = redis.SSLConnection if endpoint.tls else redis.Connection
    # Our deadlines hold; with its own it sends by `asyncio.wait_for`, which loses cancellations.
    return kind(**login_options(endpoint, timeout_s), retry=Retry(NoBackoff(), 0), socket_timeout=None)


def _take_over(connection: Any, deadline_s: float, shard: str) -> Link:
    link = Link(asyncio.get_running_loop(), deadline_s, shard)
    link.adopt(connection._writer.transport, connection._writer)
    connection._reader = connection._writer = None
    return link


async def _let_go(connection: Any) -> None:
    """Close what was not taken over."""
    if connection is not None and connection._writer is not None:
        await connection.disconnect(nowait=True)


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"{text}; name the certificates to trust with ?tls_ca=FILE"
    return text
