"""Rounds: every case once, then all again, so that what the machine does meanwhile meets them all alike."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.case import Case, Measured, Spend
from bench.server import Work, work_of

__all__ = ["measure_rounds"]

WARM_UP = 10
"""Checks of each task before anything is measured."""
PIECE = 50_000
"""The most names that exist at once."""

Results = dict[tuple[str, str, str], list[Measured]]


def measure_rounds(cases: Sequence[Case], server: Any, rounds: int, seconds: float) -> Results:
    """Measure each case `rounds` times, for about `seconds` each, in turn.

    Args:
        server: a running `ValkeyServer`; emptied before each case.
    """
    results: Results = {case.key: [] for case in cases}
    with server.client() as client:
        for number in range(rounds):
            for case in cases:
                _say(f"round {number + 1} of {rounds}: {case.group}, {case.name}, {case.loop}")
                client.flushall()
                gc.collect()
                with asyncio.Runner(loop_factory=_loop_factory(case.loop)) as runner:
                    results[case.key].append(runner.run(_measure(case, server.port, client, seconds)))
    _say("")
    return results


async def _measure(case: Case, port: int, client: Any, seconds: float) -> Measured:
    async with case.open(f"127.0.0.1:{port}") as spend:
        warm_up = case.in_flight * WARM_UP
        await _timed(spend, case, warm_up)
        _, wall_s = await _timed(spend, case, warm_up)
        wanted = max(case.in_flight, int(warm_up * seconds / wall_s))
        before = work_of(client)
        checks, cpu_s, wall_s = 0, 0.0, 0.0
        while checks < wanted:
            piece = min(PIECE, wanted - checks)
            piece_cpu_s, piece_wall_s = await _timed(spend, case, piece)
            checks, cpu_s, wall_s = checks + piece, cpu_s + piece_cpu_s, wall_s + piece_wall_s
        return _measured(checks, cpu_s, wall_s, before, work_of(client))


async def _timed(spend: Spend, case: Case, count: int) -> tuple[float, float]:
    """CPU and wall seconds of `count` checks."""
    names = case.names(count)
    shares = [names[task :: case.in_flight] for task in range(case.in_flight)]
    wall, cpu = time.perf_counter(), time.process_time()
    if case.in_flight == 1:
        await spend(names)
    else:
        await asyncio.gather(*(spend(share) for share in shares))
    return time.process_time() - cpu, time.perf_counter() - wall


def _measured(checks: int, cpu_s: float, wall_s: float, before: Work, after: Work) -> Measured:
    return Measured(checks, cpu_s, wall_s, after.cpu_s - before.cpu_s, after.scripts - before.scripts)


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop  # type: ignore[no-any-return]
    return asyncio.new_event_loop


def _say(progress: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
