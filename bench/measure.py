"""Rounds: every case once, then all again, so that what the machine does meanwhile meets them all alike."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.case import KNOWN_CLIENTS, Case, Measured, Spend
from bench.server import Work, work_of

__all__ = ["measure_rounds"]

WARM_UP = 2 * KNOWN_CLIENTS
"""Checks before anything is measured: whoever comes again has come, and was refused if that is what is measured.

Ten a task were too few where few checks are in flight. The first refusals of clients that the deny cache did not know
were measured with those that it knew, and the length of the measurement followed from the slowest of all checks.
"""
LONG_ENOUGH = 0.1
"""The part of a measurement that its length is estimated from."""
PIECE = 50_000
"""The most names that exist at once."""

Results = dict[tuple[str, str, str], list[Measured]]


def measure_rounds(cases: Sequence[Case], server: Any, rounds: int, seconds: float) -> Results:
    """Measure each case `rounds` times, for about `seconds` each, in turn.

    Args:
        server: a running server; emptied before each case.
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
        await _timed(spend, case, WARM_UP)
        wanted = await _as_many_as_take(spend, case, seconds)
        before = work_of(client)
        checks, cpu_s, wall_s = 0, 0.0, 0.0
        while checks < wanted:
            piece = min(PIECE, wanted - checks)
            piece_cpu_s, piece_wall_s = await _timed(spend, case, piece)
            checks, cpu_s, wall_s = checks + piece, cpu_s + piece_cpu_s, wall_s + piece_wall_s
        return _measured(checks, cpu_s, wall_s, before, work_of(client))


async def _as_many_as_take(spend: Spend, case: Case, seconds: float) -> int:
    """About how many checks take so long, from a part of them."""
    count, wall_s = case.in_flight, 0.0
    while wall_s < seconds * LONG_ENOUGH:
        count *= 2
        _, wall_s = await _timed(spend, case, count)
    return max(case.in_flight, int(count * seconds / wall_s))


async def _timed(spend: Spend, case: Case, count: int) -> tuple[float, float]:
    """CPU and wall seconds of `count` checks."""
    names = case.names(count)
    shares = [names[task :: case.in_flight] for task in range(case.in_flight)]
    wall, cpu = time.perf_counter(), time.process_time()
    if case.outside:
        return await spend(names), time.perf_counter() - wall
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

        return uvloop.new_event_loop
    return asyncio.new_event_loop


def _say(progress: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
