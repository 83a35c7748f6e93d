"""`bench hang`: a store that stops dead (SIGSTOP) while it is asked, and comes back.

How long a decision takes is told apart from how late the event loop is by itself: a ticker beside the tasks shows
what a wait of one millisecond takes.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from bench.machine import machine_facts
from bench.numbers import spread
from bench.server import valkey, work_of
from bench.settings import Settings
from limen import AsyncLimiter, Rule

__all__ = ["hang"]

HANG_S = 2.5
BACK_S = 20.0
"""How long to wait for the first decision of a store that is back."""
TICK_S = 0.001
NEWEST = 256
"""How many of the last decisions are searched for one of the store."""


class Way(NamedTuple):
    """How the store is asked: so many tasks, each with a pause after every check."""

    tasks: int
    pause_s: float


WAYS = {
    "8 tasks, a check every ms": Way(8, 0.001),
    "64 tasks, a check every 10 ms": Way(64, 0.01),
    "64 tasks, no pause": Way(64, 0.0),
}


class Seen(NamedTuple):
    began: float
    took_s: float
    source: str


class Log:
    """Every decision, and every tick of the loop."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.late: list[tuple[float, float]] = []
        self.stopping = False

    async def ask(self, limiter: AsyncLimiter, client: str, pause_s: float) -> None:
        while not self.stopping:
            began = time.perf_counter()
            decision = await limiter.check(client, "big")
            self.seen.append(Seen(began, time.perf_counter() - began, decision.source))
            await asyncio.sleep(pause_s)

    async def tick(self) -> None:
        while not self.stopping:
            began = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self.late.append((began, time.perf_counter() - began - TICK_S))


def hang(settings: Settings) -> dict[str, Any]:
    """Stop and continue a store, `settings.rounds` times for each way of asking."""
    hang_s = HANG_S if settings.seconds >= 0.1 else 0.2
    found: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for _ in range(settings.rounds):
        for name, way in WAYS.items():
            with valkey() as server:
                machine = machine_facts(server)
                found[name].append(asyncio.run(_hang(server, way, hang_s)))
    rows = [
        {"name": name, **{key: spread([run[key] for run in runs])._asdict() for key in runs[0]}}
        for name, runs in found.items()
    ]
    settled = {"rounds": settings.rounds, "hang_s": hang_s, "deadline_ms": 5.0}
    return {"benchmark": "hang", "machine": machine, "settings": settled, "rows": rows}


async def _hang(server: Any, way: Way, hang_s: float) -> dict[str, float]:
    with server.client() as client:
        before = work_of(client).connections
        async with AsyncLimiter(
            f"valkey://127.0.0.1:{server.port}", rules=[Rule("big", limit="1000000/minute")]
        ) as limiter:
            stopped, continued, log = await _disturbed(limiter, server.process, way, hang_s)
        connections = work_of(client).connections - before
    return _summary(log, stopped, continued) | {"connections": connections}


async def _disturbed(limiter: AsyncLimiter, process: Any, way: Way, hang_s: float) -> tuple[float, float, Log]:
    """Let the tasks run, stop the store, continue it, and wait until it decides again."""
    log = Log()
    async with asyncio.TaskGroup() as group:
        group.create_task(log.tick())
        for number in range(way.tasks):
            group.create_task(log.ask(limiter, f"client-{number}", way.pause_s))
        try:
            await _until(lambda: _from_store(log, 0.0) is not None)
            await asyncio.sleep(min(0.2, hang_s))
            stopped = time.perf_counter()
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(hang_s)
        finally:
            process.send_signal(signal.SIGCONT)
        continued = time.perf_counter()
        await _until(lambda: _from_store(log, continued) is not None)
        log.stopping = True
    return stopped, continued, log


def _summary(log: Log, stopped: float, continued: float) -> dict[str, float]:
    during = [each for each in log.seen if each.began + each.took_s > stopped and each.began < continued]
    late = [late_s for began, late_s in log.late if began + late_s + TICK_S > stopped and began < continued]
    took = sorted(each.took_s for each in during)
    back = _from_store(log, continued)
    assert back is not None
    sources = Counter(each.source for each in during)
    return {
        "worst_ms": took[-1] * 1000,
        "p999_ms": took[int(len(took) * 0.999)] * 1000,
        "worst_loop_lateness_ms": max(late) * 1000,
        "decisions": len(during),
        "local_share": sources["local_share"] / len(during),
        "back_after_ms": (back.began + back.took_s - continued) * 1000,
    }


def _from_store(log: Log, after: float) -> Seen | None:
    """The last few decisions hold the newest one of the store; None when it began before `after`."""
    found = [each for each in log.seen[-NEWEST:] if each.source == "store" and each.began > after]
    return min(found, default=None)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(BACK_S):
        while not condition():
            await asyncio.sleep(TICK_S)
