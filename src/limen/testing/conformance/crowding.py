"""Promises about many callers and many clients."""

from __future__ import annotations

from limen.core.concurrency import SlotLimit
from limen.testing.conformance.limits import US, once, slow
from limen.testing.conformance.promise import Promises, expect
from limen.testing.conformance.trial import Trial, passed

__all__ = ["promises"]

promises = Promises()

CALLS = 400
CAPACITY = 150
CROWD = 1000


@promises.add("callers at the same moment get exactly what is there")
async def admits_exactly(trial: Trial) -> None:
    for limit in (once(CAPACITY), *slow(CAPACITY)[1:]):
        op = trial.op(limit)
        found = await trial.at_once("take", [(op,)] * CALLS)
        admitted = sum(passed((op,), seen) for seen in found)
        expect(admitted, CAPACITY, f"admitted of {CALLS} callers, {limit.algorithm}")


@promises.add("callers at the same moment see each count once")
async def sees_each_count_once(trial: Trial) -> None:
    op = trial.op(once(CAPACITY))
    found = await trial.at_once("take", [(op,)] * CAPACITY)
    if trial.store.atomic((op,)):
        expect(sorted(seen for (seen,) in found), list(range(1, CAPACITY + 1)), "levels that callers saw")
    await trial.expect_left((op,), [0], f"left after {CAPACITY} callers")


@promises.add("callers at the same moment never share out two limits differently")
async def admits_exactly_together(trial: Trial) -> None:
    ops = (trial.op(once(CAPACITY), rule="a"), trial.op(once(CAPACITY + 9), client="other", rule="b"))
    found = await trial.at_once("take", [ops] * CALLS)
    admitted = sum(passed(ops, seen) for seen in found)
    expect(
        await trial.left(*ops), [CAPACITY - admitted, CAPACITY + 9 - admitted], f"left after {admitted} were admitted"
    )
    if trial.store.atomic(ops):
        expect(admitted, CAPACITY, f"admitted of {CALLS} callers")


@promises.add("callers at the same moment hold exactly the slots that there are")
async def holds_exactly(trial: Trial) -> None:
    limit = SlotLimit(10, 60 * US)
    found = await trial.at_once("acquire", [trial.slot(limit, f"holder {at}") for at in range(40)])
    expect(sum(seen.held < limit.capacity for seen in found), 10, "holders of 10 slots")


@promises.add("a client that is held back stays so, however many others come")
async def remembers_in_a_crowd(trial: Trial) -> None:
    spent = trial.op(once(5), 5)
    await trial.take(spent)
    for at in range(CROWD):
        await trial.take(trial.op(once(5), 1, client=f"passing {at}"))
    expect(await trial.left(spent), [0], f"left after it was spent and {CROWD} others came")
