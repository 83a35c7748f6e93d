"""Work of seconds, in a process that answers requests meanwhile: nobody waits for it.

A set of ten thousand rules is half a million objects. Three things would hold requests up, and none of them is the work
itself, which is done in a thread:

- A thread that computes gives the others a turn after 5 ms (`sys.getswitchinterval`), and an event loop asks for one
  time and again. So turns are shorter while such work is done.
- Half a million new objects make the garbage collector go through all there are, for 50 ms and more, while everything
  stands still. So it rests meanwhile, and what is there afterwards is taken out of its sight for good (`gc.freeze`):
  rules are not garbage in circles, they go when nobody has them any more.
- An old set goes all at once, when the last one lets go of it. So somebody holds its pieces, and drops them a few at
  a time.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

__all__ = ["in_background", "let_go", "made_many", "without_stops"]

T = TypeVar("T")
P = ParamSpec("P")

TURN_S = 0.0005
SLICE = 20
PAUSE_S = 0.0005

_lock = threading.Lock()
_many = threading.Event()
"""Set when those that are at work made so much that the collector should not see it."""
_before: list[tuple[float, bool]] = []
"""What was set when the first of those that are at work now began, once for each of them."""


async def in_background(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns, done in a thread."""
    with without_stops():
        return await asyncio.to_thread(work, *args, **kwargs)


def made_many() -> None:
    """What is being made is half a million objects. Fewer are left to the collector, which is quick with them."""
    _many.set()


def let_go(pieces: list[Any]) -> None:
    """Let go of what a list holds, a few things at a time, in a thread that nobody waits for."""
    asyncio.get_running_loop().run_in_executor(None, _let_go, pieces)


def _let_go(pieces: list[Any]) -> None:
    while pieces:
        del pieces[-SLICE:]
        time.sleep(PAUSE_S)


@contextmanager
def without_stops() -> Iterator[None]:
    """For the length of a block, which makes many objects, threads take short turns and no garbage is collected."""
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    with _lock:
        _before.append(_before[0] if _before else (sys.getswitchinterval(), gc.isenabled()))
        sys.setswitchinterval(TURN_S)
        gc.disable()


def _end() -> None:
    with _lock:
        interval_s, collects = _before.pop()
        if _before:
            return
        sys.setswitchinterval(interval_s)
        if _many.is_set():
            _many.clear()
            gc.freeze()
        if collects:
            gc.enable()
