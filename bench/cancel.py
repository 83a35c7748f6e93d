"""`bench cancel`: checks that are cancelled at random moments, and whether anybody is told what is meant for another.

Every worker has a client of its own and keeps its account, so it knows what the next check must say. In turn it
starts a check and cancels it (before it begins, when it was sent, in flight, about the deadline), and makes one that
nobody disturbs. The cancelled one was counted once or not at all, and the answer to the next tells which. Any other
answer is a wrong verdict. The server stands still now and then, so that there are late replies.

The control does the same over a connection that forgets whom a cancelled question belonged to: it shows that a wrong
answer is noticed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from bench.account import RULES, Account, Wrong
from bench.goals import judged
from bench.machine import machine_facts
from bench.numbers import spread
from bench.server import Server, valkey
from bench.settings import Settings
from limen import AsyncLimiter, Decision
from limen.stores.valkey.link import Link

__all__ = ["cancel"]

WORKERS = 64
DEADLINE_S = 0.005
STILL_EVERY_S = 0.1
"""How long the server runs before it stands still again."""
STILL_S = (0.002, 0.012)
CONTROL = 50
"""The control makes one in so many cancellations."""
SLOWEST = 500
"""Cancellations a second, at least; else something hangs."""
MOMENTS: dict[str, Callable[[], float | None]] = {
    "before it began": lambda: None,
    "when it was sent": lambda: 0.0,
    "in flight": lambda: random.uniform(0.0, 0.002),
    "about the deadline": lambda: random.uniform(0.8, 1.6) * DEADLINE_S,
}
WEIGHTS = (10, 40, 40, 10)


class Tally:
    """What happened so far, until so many checks are cancelled."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.cancelled: Counter[str] = Counter()
        self.judged = self.denied = self.counted = self.degraded = 0
        self.wrong: list[Wrong] = []

    @property
    def done(self) -> bool:
        return self.cancelled.total() >= self.wanted


def cancel(settings: Settings) -> dict[str, Any]:
    """Cancel so many checks, and a few more over a connection that is broken on purpose."""
    logging.getLogger("limen.store").setLevel(logging.ERROR)  # it stands still a thousand times, and would say so
    with valkey() as server:
        machine = machine_facts(server)
        found = _run(server, settings.cancellations, nullcontext())
        control = _run(server, max(settings.cancellations // CONTROL, 500), _forgetting())
    rows = [_row("limen", found), _row("control: forgets whom it belonged to", control)]
    goals = [
        judged("F7", "wrong verdicts", spread([float(len(found.wrong))]), 0, False),
        judged("control", "wrong verdicts of the control", spread([float(len(control.wrong))]), 1, True),
    ]
    settled = {"workers": WORKERS, "deadline_ms": DEADLINE_S * 1000, **found.cancelled}
    wrong = [each._asdict() for each in found.wrong[:10]]
    return {
        "benchmark": "cancel", "machine": machine, "settings": settled, "rows": rows, "goals": goals, "wrong": wrong
    }  # fmt: skip


def _run(server: Server, wanted: int, over: AbstractContextManager[None]) -> Tally:
    tally = Tally(wanted)
    with over:
        asyncio.run(_disturbed(server, tally))
    return tally


async def _disturbed(server: Server, tally: Tally) -> None:
    """Let the workers run, and the server stand still now and then."""
    url = f"valkey://127.0.0.1:{server.port}"
    async with AsyncLimiter(url, rules=RULES, deadline_ms=DEADLINE_S * 1000) as limiter:
        standing = asyncio.create_task(_stand_still(server))
        try:
            async with asyncio.timeout(30 + tally.wanted / SLOWEST), asyncio.TaskGroup() as group:
                for _ in range(WORKERS):
                    group.create_task(_work(limiter, tally))
        finally:
            standing.cancel()
            await asyncio.wait([standing])


async def _stand_still(server: Server) -> None:
    while True:
        await asyncio.sleep(STILL_EVERY_S)
        server.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(random.uniform(*STILL_S))
        finally:
            server.process.send_signal(signal.SIGCONT)


async def _work(limiter: AsyncLimiter, tally: Tally) -> None:
    account = Account()
    while not tally.done:
        cost = account.next_cost()
        decision = await _cancelled(limiter, account, cost, tally)
        if decision is None:
            account.doubt(cost)
            cost, most = account.next_cost(), account.lefts[0]
            decision = await limiter.check(account.client, account.rule, cost)
            tally.counted += decision.allowed and decision.remaining != most - cost
        if not _settled(account, cost, decision, tally):
            account = Account()


async def _cancelled(limiter: AsyncLimiter, account: Account, cost: int, tally: Tally) -> Decision | None:
    """Start a check and cancel it at a random moment; its decision, when that came first."""
    (moment,) = random.choices(list(MOMENTS), WEIGHTS)
    task = asyncio.create_task(limiter.check(account.client, account.rule, cost))
    delay_s = MOMENTS[moment]()
    if delay_s is not None:
        await (asyncio.wait([task], timeout=delay_s) if delay_s else asyncio.sleep(0))
    task.cancel()
    with suppress(asyncio.CancelledError):
        return await task
    tally.cancelled[moment] += 1
    return None


def _settled(account: Account, cost: int, decision: Decision, tally: Tally) -> bool:
    """Judge a verdict. False when the account is not kept: it is spent, or nobody knows what the store counted."""
    if decision.degraded:
        tally.degraded += 1
        return False
    wrong = account.settle(cost, decision)
    tally.judged += 1
    tally.denied += not decision.allowed
    if wrong is not None:
        tally.wrong.append(wrong)
    return wrong is None and account.lefts[0] > 0 and decision.source == "store"


@contextmanager
def _forgetting() -> Iterator[None]:
    """Links take the place of a cancelled question out of their queue, so that the replies behind it move up."""
    ask = Link.ask

    def ask_and_forget(link: Link, *question: Any, **how: Any) -> asyncio.Future[Any]:
        future = ask(link, *question, **how)
        future.add_done_callback(lambda it: _forget(link._waiting, it) if it.cancelled() else None)
        return future

    Link.ask = ask_and_forget  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Link.ask = ask  # type: ignore[method-assign]


def _forget(waiting: Any, question: asyncio.Future[Any]) -> None:
    with suppress(ValueError):  # its reply, or that of another, has come meanwhile
        waiting.remove(question)


def _row(name: str, found: Tally) -> dict[str, Any]:
    return {
        "name": name,
        "cancelled": found.cancelled.total(),
        "counted_all_the_same": found.counted,
        "verdicts_judged": found.judged,
        "denials": found.denied,
        "without_the_store": found.degraded,
        "wrong": len(found.wrong),
    }
