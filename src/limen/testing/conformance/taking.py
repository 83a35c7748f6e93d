"""Promises about one operation on one bucket."""

from __future__ import annotations

from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.sliding_window import SlidingWindow
from limen.testing.conformance.limits import DAY_US, once, slow
from limen.testing.conformance.promise import Promises, expect
from limen.testing.conformance.trial import Trial

__all__ = ["promises"]

promises = Promises()

ODD_NAMES = (
    "", " ", "a", "A", "a ", " a", "a:b", "a b", "a\nb", "a\0b", "{a}", "*", "%", "'; DROP TABLE limits; --", "ä",
    "a\u0308", "\ud800", "🦀", "x" * 10_000, "x" * 9_999,
)  # fmt: skip


@promises.add("a new client has everything")
async def has_everything(trial: Trial) -> None:
    for limit in slow(10):
        expect(await trial.left(trial.op(limit)), [10], limit.algorithm)


@promises.add("a store says that it is up, down or memory")
async def says_how_it_is(trial: Trial) -> None:
    expect(
        trial.store.state in ("up", "down", "memory"), True, f"state is {trial.store.state!r}, which is one of these"
    )


@promises.add("a cost is taken once, and the answer is what was there before")
async def takes_once(trial: Trial) -> None:
    for limit in slow(10):
        op = trial.op(limit, 3)
        found = [limit.remaining((await trial.take(op))[0]) for _ in range(5)]
        expect(found, [10, 7, 4, 1, 1], f"before each of five times 3 of 10 tokens, {limit.algorithm}")


@promises.add("a refused request takes nothing")
async def refuses(trial: Trial) -> None:
    for limit in slow(10):
        await trial.take(trial.op(limit, 8))
        passes = [await trial.passes(trial.op(limit, 3)) for _ in range(3)]
        expect(passes, [False] * 3, f"whether 3 of 2 tokens pass, {limit.algorithm}")
        expect(await trial.passes(trial.op(limit, 2)), True, f"whether 2 of 2 tokens pass, {limit.algorithm}")


@promises.add("a cost of 0 passes and takes nothing")
async def looks(trial: Trial) -> None:
    for limit in slow(3):
        for there in (3, 2, 1, 0):
            found = await trial.take(trial.op(limit, 0))
            expect(limit.remaining(found[0]), there, f"tokens seen by a cost of 0, {limit.algorithm}")
            expect(limit.allows(found[0], 0), True, f"whether a cost of 0 passes, {limit.algorithm}")
            await trial.take(trial.op(limit, 1))


@promises.add("a cost above the capacity never passes and takes nothing")
async def never_passes(trial: Trial) -> None:
    for limit in slow(5):
        for cost in (6, 1000, 10**9):
            op = trial.op(limit, cost)
            expect(await trial.passes(op), False, f"whether {cost} of 5 tokens pass, {limit.algorithm}")
            expect(await trial.left(op), [5], f"left after a cost of {cost}, {limit.algorithm}")


@promises.add("a capacity of 0 admits nothing")
async def bans(trial: Trial) -> None:
    for limit in slow(0):
        expect(await trial.passes(trial.op(limit, 1)), False, f"whether 1 of 0 tokens passes, {limit.algorithm}")
        expect(await trial.passes(trial.op(limit, 0)), True, f"whether a cost of 0 passes, {limit.algorithm}")


@promises.add("large numbers are exact")
async def is_exact(trial: Trial) -> None:
    most = 10**9
    for limit in (once(most), FixedWindow(most, DAY_US), SlidingWindow(most, DAY_US)):
        costs = (1, most - 4, 1, 1, 1)
        found = [limit.remaining((await trial.take(trial.op(limit, cost)))[0]) for cost in costs]
        expect(found, [most, most - 1, 3, 2, 1], f"before each of the costs {costs}, {limit.algorithm}")
        expect(await trial.left(trial.op(limit)), [0], f"left after them, {limit.algorithm}")


@promises.add("what does not spend is answered as if, and takes nothing")
async def as_if(trial: Trial) -> None:
    for limit in slow(5):
        op = trial.op(limit, 4)
        for _ in range(3):
            await trial.take(op._replace(spend=False))
        expect(await trial.left(op), [5], f"left after looking three times at 4 of 5, {limit.algorithm}")
        await trial.take(op)
        found = await trial.passes(op._replace(spend=False))
        expect(found, False, f"whether a look at 4 of 1 tokens passes, {limit.algorithm}")


@promises.add("clients have their own buckets, whatever their names")
async def tells_clients_apart(trial: Trial) -> None:
    ops = [trial.op(once(30), cost, client=name) for cost, name in enumerate(ODD_NAMES, 1)]
    for op in ops:
        await trial.take(op)
    for op, name in zip(ops, ODD_NAMES, strict=True):
        expect(await trial.left(op), [30 - op.cost], f"left of 30 after {op.cost}, client {name!r:.40}")


@promises.add("rules have their own buckets")
async def tells_rules_apart(trial: Trial) -> None:
    ops = [trial.op(once(9), cost, rule=rule) for cost, rule in enumerate(("a", "a.b", "a-b", "ab", "b"), 1)]
    for op in ops:
        await trial.take(op)
    expect(await trial.left(*ops), [8, 7, 6, 5, 4], "left of 9 after 1, 2, 3, 4 and 5")


@promises.add("another algorithm counts in another bucket")
async def tells_algorithms_apart(trial: Trial) -> None:
    ops = [trial.op(limit, cost) for cost, limit in enumerate(slow(9), 1)]
    for op in ops:
        await trial.take(op)
    expect(await trial.left(*ops), [8, 7, 6, 5, 4], "left of 9 after 1, 2, 3, 4 and 5 under one rule")


@promises.add("a changed limit keeps what was spent")
async def keeps_what_was_spent(trial: Trial) -> None:
    for before, more, less in zip(slow(10), slow(20), slow(3), strict=True):
        await trial.take(trial.op(before, 4))
        now = [6, 3] if isinstance(before, Limit) else [16, 0]
        found = await trial.left(trial.op(more), trial.op(less))
        expect(found, now, f"4 of 10 spent, under 20 and then under 3, {before.algorithm}")
