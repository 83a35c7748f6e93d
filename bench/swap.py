"""`bench swap`: how long requests are held up while a gateway changes over to another set of 10 000 rules.

A task asks for a decision every millisecond. How much later than that it comes to its turn is how long every request
waits at that moment. What other processes take from the machine is not counted: lateness counts up to the CPU time that
this process used in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.goals import judged
from bench.machine import machine_facts
from bench.match import REQUEST, rules_on_paths
from bench.numbers import spread
from bench.settings import Settings
from limen import AsyncLimiter
from limen.admin.last_good import LastGood
from limen.admin.repository import Repository
from limen.admin.watcher import Watcher

__all__ = ["swap"]

WANTED_MS = 5
TICK_S = 0.001
AFTERWARDS_S = 1.0
"""The old set is let go of in this time."""


class Swapped(NamedTuple):
    took_s: float
    late_ms: list[float]


class Gateway:
    """A limiter that follows a database, in a folder."""

    def __init__(self, limiter: AsyncLimiter, repository: Repository, folder: Path) -> None:
        self.limiter = limiter
        self._file = folder / "rules.db"
        disk = LastGood(folder / "state", f"sqlite:///{self._file}")
        self._watcher = Watcher(repository, limiter.use_rules, lambda _: None, on_error=_fail, disk=disk)
        self._late_ms: list[float] = []

    def write(self, documents: Iterable[dict[str, Any]]) -> None:
        """As somebody else writes."""
        with contextlib.closing(sqlite3.connect(self._file)) as database, database:
            (revision,) = database.execute("UPDATE meta SET revision = revision + 1 RETURNING revision").fetchone()
            columns = "(id, document, version, revision, deleted, updated_at)"
            statement = f"INSERT OR REPLACE INTO rules {columns} VALUES (?, ?, {revision}, {revision}, 0, 1)"
            database.executemany(statement, ((document["id"], json.dumps(document)) for document in documents))

    async def follow(self) -> Swapped:
        """Change over; what that took, and how late others were."""
        await self._settled()
        began = time.perf_counter()
        await self._watcher.load()
        took_s = time.perf_counter() - began
        await asyncio.sleep(AFTERWARDS_S)
        return Swapped(took_s, list(self._late_ms))

    async def quiet(self) -> Swapped:
        """The same without a change."""
        await self._settled()
        await asyncio.sleep(AFTERWARDS_S)
        return Swapped(0.0, list(self._late_ms))

    async def _settled(self) -> None:
        """What the making of rules held up does not count."""
        await asyncio.sleep(AFTERWARDS_S / 10)
        self._late_ms = []

    async def ask(self) -> None:
        """Ask all the time."""
        while True:
            began, used = time.perf_counter(), time.process_time()
            await self.limiter.check_request(REQUEST)
            await asyncio.sleep(TICK_S)
            late_s = time.perf_counter() - began - TICK_S
            self._late_ms.append(max(0.0, min(late_s, time.process_time() - used)) * 1000)


def swap(settings: Settings) -> dict[str, Any]:
    """Change one rule of many, and all of them, in turn."""
    count = settings.rules
    found = asyncio.run(_swap(count, settings.rounds))
    rows = [_row(name, runs) for name, runs in found.items()]
    goals = [
        judged(
            "P14",
            f"ms that requests wait at most: {name}",
            spread([max(run.late_ms) for run in runs]),
            WANTED_MS,
            False,
        )
        for name, runs in found.items()
        if name != NOTHING
    ]
    settled = {"rounds": settings.rounds, "rules": count}
    return {"benchmark": "swap", "machine": machine_facts(), "settings": settled, "rows": rows, "goals": goals}


NOTHING = "floor: nothing changes"


async def _swap(count: int, rounds: int) -> dict[str, list[Swapped]]:
    found: dict[str, list[Swapped]] = {NOTHING: [], "one rule changes": [], "all rules change": []}
    async with _gateway(count) as gateway:
        for number in range(1, rounds + 1):
            documents = await asyncio.to_thread(_documents, count, number)
            await asyncio.sleep(AFTERWARDS_S)
            found[NOTHING].append(await gateway.quiet())
            for name, changed in (("one rule changes", documents[:1]), ("all rules change", documents)):
                await asyncio.to_thread(gateway.write, changed)
                found[name].append(await gateway.follow())
    return found


@asynccontextmanager
async def _gateway(count: int) -> AsyncIterator[Gateway]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with await Repository.open(f"sqlite:///{folder / 'rules.db'}") as repository, AsyncLimiter() as limiter:
            gateway = Gateway(limiter, repository, folder)
            gateway.write(_documents(count, 1_000_000))
            await gateway.follow()
            asking = asyncio.create_task(gateway.ask())
            try:
                yield gateway
            finally:
                asking.cancel()


def _documents(count: int, per_minute: int) -> list[dict[str, Any]]:
    return [rule.to_document() for rule in rules_on_paths(count, per_minute)]


def _row(name: str, runs: list[Swapped]) -> dict[str, Any]:
    late = [sorted(run.late_ms) for run in runs]
    return {
        "name": name,
        "took_ms": spread([run.took_s * 1000 for run in runs])._asdict(),
        "p99_ms": spread([run[int(len(run) * 0.99)] for run in late])._asdict(),
        "worst_ms": spread([run[-1] for run in late])._asdict(),
    }


def _fail(error: Exception) -> None:
    raise error
