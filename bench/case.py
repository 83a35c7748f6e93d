"""What is measured: a case opens something and spends with it; a measurement is one run of it."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

__all__ = ["Case", "Measured", "Names", "Spend", "fresh_clients", "known_clients", "missing"]

Spend = Callable[[Sequence[str]], Awaitable[Any]]
"""Checks once for each of some clients, one after the other. The loop is inside, so that it costs all cases alike."""

Names = Callable[[int], list[str]]
"""That many client names."""

KNOWN_CLIENTS = 1000
_never_used = itertools.count()


def known_clients(count: int) -> list[str]:
    """Clients that come again and again."""
    return [f"client-{number % KNOWN_CLIENTS}" for number in range(count)]


def fresh_clients(count: int) -> list[str]:
    """Clients that never came before."""
    return [f"fresh-{number}" for number in itertools.islice(_never_used, count)]


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a table.

    Args:
        name: unique in its group, together with `loop`.
        open: from the URL of a store to something to spend with, for the length of a block.
        needs: the module without which it is left out.
        hindered: says why it cannot run here, if so.
        outside: another process does the work. It gets all names at once, sees to `in_flight` itself, and what its
            `Spend` returns are the CPU seconds of that process.
        loop: the event loop that it runs on, `asyncio` or `uvloop`.
        in_flight: how many tasks check at once.
        names: who checks.
    """

    group: str
    name: str
    open: Callable[[str], AbstractAsyncContextManager[Spend]]
    needs: str | None = None
    loop: str = "asyncio"
    in_flight: int = 1
    names: Names = known_clients
    hindered: Callable[[], str | None] = lambda: None
    outside: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        return self.group, self.name, self.loop


class Measured(NamedTuple):
    """One run of a case. Seconds of the whole run."""

    checks: int
    cpu_s: float
    wall_s: float
    store_cpu_s: float
    store_calls: int


def missing(case: Case) -> str | None:
    """Why a case cannot be measured here, if so."""
    wanted = (case.needs, "uvloop" if case.loop == "uvloop" else None)
    absent = next((module for module in wanted if module and find_spec(module) is None), None)
    return f"{absent} is not installed" if absent else case.hindered()
