"""Who gets in: a port that can be open, closed, or as if nobody were there at all."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

__all__ = ["Door"]

BACKLOG = 1024
FULL = 4
"""Connections that fill a queue of length 0."""


class Door:
    """A port of this machine that stays ours whether or not anybody may come in.

    One socket holds the port and never listens; another listens while the door is open. To a silent door calls are
    made and never answered: its queue is full, so the kernel drops what asks for a place in it.
    """

    def __init__(self, host: str, port: int, enter: Callable[[socket.socket], None]) -> None:
        self._enter = enter
        self._held = self._bound((host, port))
        self.host, self.port = self._held.getsockname()[:2]
        self._listening: list[socket.socket] = []

    def open(self) -> None:
        """Let everybody in."""
        self.refuse()
        listening = self._listen(BACKLOG)
        asyncio.get_running_loop().add_reader(listening, self._answer, listening)

    def refuse(self) -> None:
        """Whoever calls is told at once that nobody listens."""
        for each in self._listening:
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        self._listening.clear()

    def ignore(self) -> None:
        """Whoever calls hears nothing, not even a refusal."""
        self.refuse()
        self._listen(0)
        for _ in range(FULL):
            filling = socket.socket(self._held.family)
            filling.setblocking(False)
            self._listening.append(filling)
            with contextlib.suppress(BlockingIOError):
                filling.connect((self.host, self.port))

    def close(self) -> None:
        self.refuse()
        self._held.close()

    def _listen(self, backlog: int) -> socket.socket:
        listening = self._bound((self.host, self.port))
        self._listening.append(listening)
        listening.listen(backlog)
        return listening

    def _bound(self, place: tuple[str, int]) -> socket.socket:
        bound = socket.socket(socket.AF_INET6 if ":" in place[0] else socket.AF_INET)
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(place)
        return bound

    def _answer(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):  # who called has hung up meanwhile
            came, _ = listening.accept()
            came.setblocking(False)
            self._enter(came)
