"""One gateway process: a limiter under load, driven by lines of JSON on its standard input.

    python -m tests.faults.fleet.worker 'SPEC AS JSON'

Each line is a command, `{"do": "load"}`, and is answered by one line. The commands are the methods `do_…` below.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import json
import os
import resource
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from tests.faults.fleet.record import packed_decision, packed_failure
from tests.faults.fleet.spec import Load, Spec
from tests.faults.fleet.watch import Attempts, Heart, Troubles, now_us

PATIENCE_S = 10.0
BEHIND_S = 1.0
"""Who was frozen for longer does not catch up: those callers have gone elsewhere."""


class Worker:
    """A gateway.

    Args:
        spec: what it is and what it does.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rules = [Rule(**rule) for rule in spec.rules]
        self.observer = PrometheusObserver() if spec.metrics else None
        self.limiter = AsyncLimiter(spec.store, self.rules, observer=self.observer, **spec.options)
        loop = asyncio.get_running_loop()
        self.attempts = Attempts(loop)
        self.troubles = Troubles(loop)
        self.heart = Heart(self.shards)
        self.log = bytearray()
        self.raised: list[str] = []
        self.decided = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._traffic: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    def shards(self) -> dict[str, str]:
        """What it thinks of each shard: `up` or `down`."""
        return dict(self.limiter.store_shards)

    async def do_start(self) -> None:
        await self.limiter.start()
        if self.observer is not None:
            self.observer.watch(self.limiter)
            self._watching = asyncio.create_task(self.observer.keep_watch())
        self.heart.beat()

    async def do_load(self, **changes: Any) -> None:
        """Begin the load, or go on with another one."""
        await self.do_rest()
        self.spec.load = Load(**{**self.spec.load.__dict__, **changes})
        self._traffic = asyncio.create_task(self._ask_on())

    async def do_rest(self) -> None:
        """End the load; returns when everybody is answered."""
        if self._traffic is not None:
            self._traffic.cancel()
            self._traffic = None
        if self._under_way:
            _, pending = await asyncio.wait(self._under_way, timeout=PATIENCE_S)
            self.raised += [f"a caller was never answered: {task!r}" for task in pending]

    async def do_decided(self) -> int:
        return self.decided

    async def do_shards(self) -> dict[str, str]:
        return self.shards()

    async def do_stall(self, seconds: float) -> None:
        """Keep the event loop busy."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    async def do_metrics(self) -> str:
        return "" if self.observer is None else self.observer.render().decode()

    async def do_inside(self) -> dict[str, Any]:
        """Numbers of the process."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "files": len(os.listdir("/proc/self/fd")),
            "rss_kb": _resident_pages() * resource.getpagesize() // 1024,
            "cpu_s": usage.ru_utime + usage.ru_stime,
        }

    async def do_call(self, name: str, *arguments: Any) -> Any:
        """Call a method of the limiter, or read an attribute: `{"do": "call", "name": "fleet.size"}`."""
        found: Any = self.limiter
        for part in name.split("."):
            found = getattr(found, part)
        if callable(found):
            found = found(*arguments)
        if asyncio.iscoroutine(found):
            found = await found
        return found

    async def do_check(self, client: str, rule: str, cost: int = 1) -> dict[str, Any]:
        """One decision, besides the load."""
        return (await self.limiter.check(client, rule, cost)).to_json()

    async def do_report(self) -> dict[str, Any]:
        """Write down what was decided since the last report, and what else happened."""
        path = Path(self.spec.folder) / f"gateway-{self.spec.number}-{now_us()}"
        path.write_bytes(self.log)
        self.log.clear()
        heart, troubles = self.heart, self.troubles
        told = {
            "decisions": str(path), "late": heart.late, "changes": heart.changes, "attempts": self.attempts.found,
            "unhandled": [*troubles.unhandled, *self.raised], "lines": troubles.lines, "loads": self._loads(),
            "inside": await self.do_inside(),
        }  # fmt: skip
        heart.late, heart.changes, self.attempts.found, troubles.unhandled, self.raised = [], [], [], [], []
        troubles.lines = []
        return told

    async def do_close(self) -> None:
        await self.do_rest()
        self.heart.stop()
        if self._watching is not None:
            self._watching.cancel()
        await self.limiter.close()

    def _loads(self) -> dict[str, int]:
        """How often the script was sent again to each server that is known now."""
        store: Any = self.limiter._store
        if hasattr(store, "cluster"):
            return {f"{at.host}:{at.port}": node.loads for at, node in store.cluster.nodes.items()}
        return {str(store.node.endpoint): store.node.loads} if hasattr(store, "node") else {}

    async def _ask_on(self) -> None:
        load = self.spec.load
        chance = Random(load.seed * 1009 + self.spec.number)
        whom, what = _clients(load, chance), _questions(load, self.rules, chance)
        due = time.monotonic()
        while True:
            due += chance.expovariate(load.rate)
            wait = due - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            elif wait < -BEHIND_S:
                due = time.monotonic()
            self._begin(next(whom), *next(what), chance)

    def _begin(self, client: int, rule: int, cost: int, chance: Random) -> None:
        task = asyncio.create_task(self._one(client, rule, cost))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        if self.spec.load.cancelled and chance.random() < self.spec.load.cancelled:
            asyncio.get_running_loop().call_later(chance.random() * 0.004, task.cancel)

    async def _one(self, client: int, rule: int, cost: int) -> None:
        name, rule_id = f"{self.spec.load.prefix}{client}", self.rules[rule].id
        invoked = now_us()
        try:
            found = await self.limiter.check(name, rule_id, cost)
            self.log += packed_decision(invoked, now_us(), client, cost, rule, found)
        except asyncio.CancelledError:
            self.log += packed_failure(invoked, now_us(), client, cost, rule, "cancelled")
        except Exception as error:  # noqa: BLE001 - whatever comes out of a check is a finding
            self.log += packed_failure(invoked, now_us(), client, cost, rule, "raised")
            self.raised.append("".join(traceback.format_exception(error)))
        self.decided += 1


def _resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


def _clients(load: Load, chance: Random) -> Any:
    """Numbers of clients, by Zipf."""
    sums = list(itertools.accumulate((at + 1) ** -load.zipf for at in range(load.clients)))
    while True:
        yield bisect.bisect_left(sums, chance.random() * sums[-1])


def _questions(load: Load, rules: list[Rule], chance: Random) -> Any:
    """(place of the rule, cost)."""
    places = {rule.id: at for at, rule in enumerate(rules)}
    mix = load.mix or [(rule.id, 1.0, 1) for rule in rules]
    choices = [(places[rule], cost) for rule, _, cost in mix]
    weights = [weight for _, weight, _ in mix]
    while True:
        yield from chance.choices(choices, weights, k=1024)


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _answered(worker: Worker, line: bytes) -> str:
    asked = json.loads(line)
    try:
        found = await getattr(worker, "do_" + asked.pop("do"))(*asked.pop("with", ()), **asked)
        return json.dumps({"found": found})
    except Exception as error:  # noqa: BLE001 - it is raised again where it was asked
        return json.dumps({"error": "".join(traceback.format_exception(error))})


async def main(spec: Spec) -> None:
    worker = Worker(spec)
    lines = await _lines()
    while line := await lines.readline():
        sys.stdout.write(await _answered(worker, line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Spec.read(sys.argv[1])))
