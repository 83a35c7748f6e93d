"""Promises about candidates, and about limits that become others: of stores that say that they heed them."""

from __future__ import annotations

from limen.core.algorithm import AnyLimit
from limen.core.carry import CARRY_OVERS, Carry, CarryOver
from limen.core.limit import Limit
from limen.stores.base import Op, bucket_name, candidate_name
from limen.testing.conformance.limits import US, once, slow
from limen.testing.conformance.promise import Promises, expect, where_it_can
from limen.testing.conformance.trial import Trial

__all__ = ["promises"]

promises = Promises()

FAR_US = 4_000_000_000 * US
"""In the year 2096."""
LEFT: dict[CarryOver, tuple[int, int]] = {
    "as-is": (6, 3), "proportional": (12, 1), "additive": (16, 3), "reset": (20, 3)
}  # fmt: skip
"""Of a token bucket of 10 in which 4 were spent, once the capacity is 20, and once it is 3."""
LEFT_IN_WINDOW: dict[CarryOver, tuple[int, int]] = {**LEFT, "as-is": (16, 0)}


def tried(op: Op, limit: AnyLimit) -> Op:
    """The question to a candidate for the limit of an operation."""
    beside = bucket_name(op.rule, op.limit.algorithm)
    return op._replace(rule=candidate_name(op.rule), limit=limit, enforce=False, beside=beside)


def moving(op: Op, limit: AnyLimit, how: CarryOver, generation: int = 2) -> Op:
    """The same question by a gateway that knows of a new limit."""
    return op._replace(limit=limit, carry=Carry(generation, how, op.limit, FAR_US))


@promises.add("a candidate is taken as if it stood in the place of the limit that it is beside")
@where_it_can("carries")
async def stands_in(trial: Trial) -> None:
    live, other = trial.op(once(2), rule="a"), trial.op(once(9), rule="b")
    candidate = tried(live, once(5))
    for _ in range(4):
        await trial.take(live, candidate, other)
    await trial.expect_left((live, candidate, other), [0, 1, 7], "left after four, of which the limit refused two")
    await trial.take(live, candidate, other._replace(cost=8))
    await trial.expect_left((live, candidate, other), [0, 1, 7], "left after one that another limit refused too")


@promises.add("a bucket becomes one of a new limit once, as it is said how")
@where_it_can("carries")
async def converts(trial: Trial) -> None:
    for how in CARRY_OVERS:
        for before, more, less in zip(slow(10), slow(20), slow(3), strict=True):
            wanted = (LEFT if isinstance(before, Limit) else LEFT_IN_WINDOW)[how]
            for after, left in zip((more, less), wanted, strict=True):
                op = trial.op(before, 4, client=f"{how} {after.capacity}")
                await trial.take(op)
                changed = moving(op, after, how)
                for time in ("the first", "the second"):
                    told = f"4 of 10 spent, then {after.capacity}, {how}, {before.algorithm}, {time} time"
                    expect(await trial.left(changed), [left], told)


@promises.add("who has not heard of a new limit yet neither converts a bucket back nor takes away what it holds")
@where_it_can("carries")
async def is_late(trial: Trial) -> None:
    for before, after in zip(slow(10), slow(100), strict=True):
        op = trial.op(before, 5)
        await trial.take(op)
        changed = moving(op, after, "reset")
        await trial.take(changed)
        expect(await trial.passes(op), True, f"whether a late one passes, {before.algorithm}")
        expect(
            await trial.passes(op._replace(cost=11)), False, f"whether it may more than it knows, {before.algorithm}"
        )
        expect(await trial.left(changed), [90], f"left of 100 after 5 and 5, {before.algorithm}")


@promises.add("of two changes the newer one counts, whoever asks last")
@where_it_can("carries")
async def is_newer(trial: Trial) -> None:
    for first, second, third in zip(slow(10), slow(100), slow(50), strict=True):
        op = trial.op(first, 5)
        await trial.take(op)
        newest = moving(op, third, "proportional", generation=3)
        expect(await trial.left(newest), [25], f"left of 50 in proportion, {first.algorithm}")
        older = moving(op, second, "reset")
        expect(
            await trial.left(older, newest),
            [25, 25],
            f"left after a question of an older generation, {first.algorithm}",
        )


@promises.add("a bucket that nobody knows is full under a new limit too")
@where_it_can("carries")
async def is_new(trial: Trial) -> None:
    for before, after in zip(slow(10), slow(20), strict=True):
        changed = moving(trial.op(before), after, "additive")
        expect(await trial.left(changed), [20], f"left, {before.algorithm}")
        await trial.take(changed)
        expect(await trial.left(changed), [19], f"left after one, {before.algorithm}")
