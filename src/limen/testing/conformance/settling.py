"""Promises about what is charged afterwards. A store that has no `charge` settles nothing, and keeps them all."""

from __future__ import annotations

from uuid import uuid4

from limen.core.algorithm import AnyLimit, Seen
from limen.core.limit import Limit
from limen.stores.base import Charge, Op
from limen.testing.conformance.limits import US, once, quick, slow
from limen.testing.conformance.promise import Promises, expect, where_it_can
from limen.testing.conformance.trial import Trial

__all__ = ["promises"]

promises = Promises()
settles = where_it_can("charge")

REPEATED = 3


def charge(op: Op, tokens: int, most: int | None = None) -> Charge:
    """Under a name of its own. `most` is whole tokens."""
    return Charge(op._replace(cost=tokens), None if most is None else most * unit_of(op.limit), uuid4().bytes)


def unit_of(limit: AnyLimit) -> int:
    return limit.token_ticks if isinstance(limit, Limit) else 1


def amount_of(seen: Seen) -> int:
    """In that unit."""
    amount: int = seen if isinstance(seen, int) else seen[0]
    return amount


@promises.add("what is charged is taken once for each name, and each time it is told how much that was")
@settles
async def charges_once(trial: Trial) -> None:
    for limit in slow(10):
        op = trial.op(limit)
        first, second = charge(op, 3), charge(op, 4)
        for asked, tokens, left in [(first, 3, 7)] * REPEATED + [(second, 4, 3)] * REPEATED + [(first, 3, 3)]:
            expect((await trial.charge(asked)).tokens, tokens, f"told to be charged, {limit.algorithm}")
            expect(await trial.left(op), [left], f"left of 10 after it, {limit.algorithm}")


@promises.add("one name may charge several buckets")
@settles
async def charges_each_bucket(trial: Trial) -> None:
    ops = [trial.op(once(10)), trial.op(once(10), rule="other"), trial.op(once(10), client="other")]
    asked = charge(ops[0], 3)
    for op in ops:
        await trial.charge(asked._replace(op=op._replace(cost=3)))
    expect(await trial.left(*ops), [7, 7, 7], "left in three buckets after 3 of 10 were charged to each")


@promises.add("a charge of more than is there takes what is there")
@settles
async def charges_what_is_there(trial: Trial) -> None:
    for limit in slow(10):
        op = trial.op(limit, 8)
        await trial.take(op)
        charged = await trial.charge(charge(op, 10**6))
        expect(charged.tokens, 2, f"told to be charged where 2 are left, {limit.algorithm}")
        expect(await trial.left(op), [0], f"left after it, {limit.algorithm}")


@promises.add("a charge leaves no more than it says, and never more than was there")
@settles
async def bounds(trial: Trial) -> None:
    for limit in slow(10):
        op = trial.op(limit)
        for most, left in ((12, 10), (9, 9), (10, 9), (4, 4), (5, 4), (0, 0), (10, 0)):
            charged = await trial.charge(Charge(op._replace(cost=0), most * unit_of(limit), b""))
            expect(charged.tokens, 0, f"told to be charged by a mere bound, {limit.algorithm}")
            expect(await trial.left(op), [left], f"left with a bound of {most}, {limit.algorithm}")


@promises.add("a charge tells what is there after it")
@settles
async def tells_what_is_left(trial: Trial) -> None:
    for limit in slow(10):
        op = trial.op(limit)
        for asked, left in ((charge(op, 2, most=9), 8), (charge(op, 1, most=3), 3), (charge(op, 50), 0)):
            seen = amount_of((await trial.charge(asked)).seen)
            expect(seen // unit_of(limit), left, f"told to be left, {limit.algorithm}")
            expect(await trial.left(op), [left], f"left in fact, {limit.algorithm}")


@promises.add("granted tokens are charged last")
@settles
async def charges_grants_last(trial: Trial) -> None:
    op = trial.op(once(10))
    await trial.grant(op, 5, 3600 * US)
    for tokens, left in ((7, 8), (7, 1), (7, 0)):
        await trial.charge(charge(op, tokens))
        expect(await trial.left(op), [left], f"left of 10 and 5 granted, after {tokens} more")


@promises.add("what was charged comes back as what was taken does", moves_time=True)
@settles
async def comes_back(trial: Trial) -> None:
    for limit in quick(10):
        taken, charged = trial.op(limit, 10, rule="taken"), trial.op(limit, 0, rule="charged")
        for op in (taken, charged):
            await trial.take(op)
        await trial.charge(charge(charged, 10))
        for _ in range(8):
            trial.advance(US // 4)
            (wanted, found) = await trial.left(taken, charged)
            expect(found, wanted, f"back of 10 that were charged, not taken, {limit.algorithm}")


@promises.add("charges with one name that come at the same moment are made once")
@settles
async def charges_once_in_a_crowd(trial: Trial) -> None:
    op = trial.op(once(100))
    await trial.at_once("charge", [charge(op, 7)] * 40)
    expect(await trial.left(op), [93], "left of 100 after 7 were charged, 40 times under one name")
