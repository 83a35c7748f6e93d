"""Load that costs less to make than to serve: plain sockets, whole batches of commands, several connections in turn.

While a server works on the batch of one connection, the batch of the next is built and sent. Replies are read by
hiredis and handed back in the order of the commands.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any

import hiredis

__all__ = ["Pipe", "ask_all"]

BATCH = 1_000
CONNECTIONS = 4
PATIENCE_S = 60.0
"""How long a batch may take: the server may be evicting, or growing a table."""


class Pipe:
    """One blocking connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._open = 0

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, commands: list[bytes]) -> None:
        self._socket.sendall(b"".join(commands))
        self._open += len(commands)

    def replies(self) -> Iterator[Any]:
        """What was asked and not read yet."""
        while self._open:
            reply = self._reader.gets()
            if reply is not _NOTHING:
                self._open -= 1
                yield reply
            elif data := self._socket.recv(65_536):
                self._reader.feed(data)
            else:
                raise SystemExit("bench: the server has hung up; its log says why")

    def ask(self, command: bytes) -> Any:
        self.send([command])
        return next(self.replies())


def ask_all(port: int, commands: Iterable[bytes], batch: int = BATCH, connections: int = CONNECTIONS) -> Iterator[Any]:
    """Ask everything as fast as the server answers; the replies, errors among them, in the order of the commands."""
    remaining = iter(commands)
    with ExitStack() as stack:
        idle = [stack.enter_context(Pipe(port)) for _ in range(connections)]
        busy: deque[Pipe] = deque()
        while following := list(islice(remaining, batch)):
            if not idle:
                first = busy.popleft()
                yield from first.replies()
                idle.append(first)
            pipe = idle.pop()
            pipe.send(following)
            busy.append(pipe)
        for pipe in busy:
            yield from pipe.replies()


_NOTHING = object()
