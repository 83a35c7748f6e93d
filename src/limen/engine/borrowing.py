"""Asking the store for leases, beside the requests that made it worth it: nobody waits for them, with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from limen.engine.lease import Lease
from limen.engine.leases import Leases
from limen.errors import StoreError
from limen.stores.base import Borrow, Lent

__all__ = ["AsyncBorrowing", "borrow_each"]

PATIENCE_S = 0.5
"""How long closing waits for what is given back; after that it runs out by itself."""


def borrow_each(asked: Iterable[Lease], leases: Leases, borrow: Callable[[Borrow], Lent]) -> None:
    """Ask the store about leases, one after the other, for code that blocks."""
    for lease in asked:
        try:
            while (question := leases.question(lease)) and leases.answered(lease, question, borrow(question)):
                pass
        except StoreError:
            leases.failed(lease)


class AsyncBorrowing:
    """Tasks that ask the store.

    Args:
        leases: what is held.
        borrow: how the store is asked.
    """

    def __init__(self, leases: Leases, borrow: Callable[[Borrow], Awaitable[Lent]]) -> None:
        self._leases = leases
        self._borrow = borrow
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, asked: Iterable[Lease]) -> None:
        """Ask the store about leases. Without an event loop nobody is asked: they run out."""
        for lease in asked:
            asking = self._ask(lease)
            try:
                task = asyncio.create_task(asking, name="limen lease")
            except RuntimeError:
                asking.close()
                self._leases.failed(lease)
            else:
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Give back everything, as far as that works at once."""
        self.begin(self._leases.finish())
        here = asyncio.get_running_loop()
        tasks = [task for task in self._tasks if task.get_loop() is here]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=PATIENCE_S)
            for task in late:
                task.cancel()

    async def _ask(self, lease: Lease) -> None:
        leases = self._leases
        try:
            while (question := leases.question(lease)) and leases.answered(
                lease, question, await self._borrow(question)
            ):
                pass
        except BaseException as error:
            leases.failed(lease)
            if not isinstance(error, StoreError):
                raise
        else:
            self._look_in_time(lease)

    def _look_in_time(self, lease: Lease) -> None:
        """Give back what is left when the client asks no more, though no other request comes that would show it."""
        if not lease.gone:
            seconds = lease.terms.ttl_us * 7 / 8 / 1_000_000
            asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self.begin(self._leases.cooled())
