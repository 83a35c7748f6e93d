"""Log in with redis-py (TLS, AUTH, SELECT) and take its socket over: the one place that knows its insides."""

from __future__ import annotations

import socket
from typing import Any

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.retry import Retry

from limen.errors import StoreError
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.login import login_options
from limen.stores.valkey.replies import ROLE, classify, is_replica, store_error
from limen.stores.valkey.script import PING
from limen.stores.valkey.sync_channel import Channel, Reply

__all__ = ["ask_once", "log_in", "open_channel", "probe"]

GIVE_UP_S = 1.0
"""How long a question may take that no request waits for."""


def log_in(
    endpoint: Endpoint, patience_s: float, timeout_s: float, on_connect: bytes, must_be_primary: bool
) -> Channel:
    """A channel that is ready for questions.

    Args:
        patience_s: how long callers of the channel wait for a reply.
        timeout_s: how long each step of connecting and logging in may take.
        on_connect: a command to send first.

    Raises:
        StoreError: as `open_channel`; `read_only` for a replica where a primary must be.
    """
    channel = open_channel(endpoint, patience_s, timeout_s)
    try:
        if must_be_primary:
            _check_role(channel, endpoint)
        channel.ask(on_connect, GIVE_UP_S)
    except BaseException:
        channel.close()
        raise
    return channel


def _check_role(channel: Channel, endpoint: Endpoint) -> None:
    if is_replica(channel.ask(ROLE, GIVE_UP_S)):
        raise StoreError(f"{endpoint} is a replica: it takes no writes", "read_only", str(endpoint.address))


def probe(channel: Channel, where: str, deadline_s: float, shard: str = "") -> None:
    """Ask whether the server is there: first at all, then within the deadline of requests.

    Raises:
        StoreError: it is not.
    """
    for patience_s in (GIVE_UP_S, deadline_s):
        reply = channel.ask(PING, patience_s)
        if isinstance(reply, hiredis.ReplyError):
            raise store_error(classify(str(reply)), where, shard)


def ask_once(endpoint: Endpoint, command: bytes) -> Reply:
    """The answer of a server that is asked this and nothing else.

    Raises:
        StoreError: as `open_channel`, and for an answer that is an error.
    """
    channel = open_channel(endpoint, GIVE_UP_S, GIVE_UP_S)
    try:
        reply = channel.ask(command, GIVE_UP_S)
    finally:
        channel.close()
    if isinstance(reply, hiredis.ReplyError):
        raise store_error(classify(str(reply)), str(endpoint), str(endpoint.address))
    return reply


def open_channel(endpoint: Endpoint, patience_s: float, timeout_s: float) -> Channel:
    """A channel to a server, logged in.

    Raises:
        StoreError: `down` when nobody answers, `login` when the server will not have us.
    """
    connection, shard = _connection(endpoint, timeout_s), str(endpoint.address)
    try:
        connection.connect()
        return Channel(_taken_over(connection), patience_s, shard)
    except AuthenticationError as error:
        raise StoreError(f"{endpoint} refused the login: {error}; check user and password", "login", shard) from error
    except (RedisError, OSError, ValueError) as error:
        message = f"{endpoint} cannot be reached: {str(error) or type(error).__name__}"
        raise StoreError(message, "down", shard) from error
    finally:
        connection.disconnect()  # what was not taken over


def _connection(endpoint: Endpoint, timeout_s: float) -> Any:
    kind = redis.Connection if endpoint.tls is None else redis.SSLConnection
    return kind(**login_options(endpoint, timeout_s), retry=Retry(NoBackoff(), 0), socket_timeout=timeout_s)


def _taken_over(connection: Any) -> socket.socket:
    taken: socket.socket = connection._sock
    connection._sock = None
    return taken
