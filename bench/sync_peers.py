"""A blocking check of one thread: what Limen sends, sent by hand and by redis-py."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import hiredis

from bench.case import KNOWN_CLIENTS, Spend, known_clients
from bench.limen_cases import BIG
from bench.questions import Questions, words_of

__all__ = ["hiredis_by_hand", "limen_sync", "redis_py"]


def limen_sync(store: str) -> Any:
    """`Limiter.check` with a store."""
    from bench.sync_cases import check

    return check(store)


@asynccontextmanager
async def hiredis_by_hand(store: str) -> AsyncIterator[Spend]:
    """The floor: the same commands, sent and read on a blocking socket."""
    host, _, port = store.partition(":")
    commands = _commands(int(port))
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        send, receive, reader = connection.sendall, connection.recv, hiredis.Reader()

        async def spend(clients: Sequence[str]) -> None:
            for client in clients:
                send(commands[client])
                reader.feed(receive(65_536))
                reader.gets()

        yield spend


@asynccontextmanager
async def redis_py(store: str) -> AsyncIterator[Spend]:
    """redis-py, blocking, and the script that Limen uses."""
    from redis import Redis

    host, _, port = store.partition(":")
    words = {client: words_of(command) for client, command in _commands(int(port)).items()}
    with Redis(host=host, port=int(port)) as client:
        execute = client.execute_command

        async def spend(clients: Sequence[str]) -> None:
            for name in clients:
                execute(*words[name])

        yield spend


def _commands(port: int) -> dict[str, bytes]:
    """What is sent for each client, built beforehand; the server knows the scripts then."""
    questions = Questions()
    questions.introduce(port)
    return {client: questions.take(client, BIG) for client in known_clients(KNOWN_CLIENTS)}
