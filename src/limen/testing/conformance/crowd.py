"""Many callers at the same moment."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

__all__ = ["in_tasks", "in_threads"]

THREADS = 8
PATIENCE_S = 60.0


async def in_tasks(ask: Callable[..., Awaitable[Any]], questions: Sequence[Any]) -> list[Any]:
    """The answers, in the order of the questions. All are asked before the first is answered."""
    return await asyncio.gather(*map(ask, questions))


def in_threads(ask: Callable[..., Any], questions: Sequence[Any]) -> list[Any]:
    """The answers, in no order. Threads that begin together ask an equal part each."""
    start = Barrier(THREADS, timeout=PATIENCE_S)

    def work(first: int) -> list[Any]:
        start.wait()
        return [ask(question) for question in questions[first::THREADS]]

    with ThreadPoolExecutor(THREADS) as pool, _switching_often():
        return [answer for answers in pool.map(work, range(THREADS)) for answer in answers]


@contextmanager
def _switching_often() -> Iterator[None]:
    """Threads usually run for 5 ms before another has its turn: long enough to miss what goes wrong between them."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
