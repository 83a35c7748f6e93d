"""Promises about what is given on top, and given back."""

from __future__ import annotations

from limen.testing.conformance.limits import DAY_US, US, once, quick, slow
from limen.testing.conformance.promise import Promises, expect
from limen.testing.conformance.trial import Trial

__all__ = ["promises"]

promises = Promises()

HOUR_US = 3600 * US


@promises.add("a reset makes a bucket full again, and no other")
async def resets_one(trial: Trial) -> None:
    for limit in slow(5):
        ops = [trial.op(limit, 3), trial.op(limit, 3, rule="other"), trial.op(limit, 3, client="other")]
        for op in ops:
            await trial.take(op)
        await trial.reset(ops[0], ops[0].rule)
        expect(await trial.left(*ops), [5, 2, 2], f"left after 3 of 5 and a reset of the first, {limit.algorithm}")
        await trial.reset(ops[1], None)
        await trial.reset(ops[2], None)


@promises.add("a reset of a rule reaches its bucket of every algorithm")
async def resets_algorithms(trial: Trial) -> None:
    ops = [trial.op(limit, 3) for limit in slow(5)]
    for op in ops:
        await trial.take(op)
    await trial.reset(ops[0], ops[0].rule)
    expect(await trial.left(*ops), [5] * len(ops), "left in the buckets of each algorithm")


@promises.add("a reset of a client makes all its buckets full again, and nobody else's")
async def resets_client(trial: Trial) -> None:
    ops = [trial.op(limit, 3, rule=f"rule {at}") for at, limit in enumerate(slow(5))]
    other = trial.op(once(5), 3, client="other", rule="rule 0")
    for op in (*ops, other):
        await trial.take(op)
    await trial.reset(ops[0], None)
    expect(await trial.left(*ops, other), [5] * len(ops) + [2], "left after a reset of the first client")


@promises.add("a reset finds buckets that have a label")
async def resets_labelled(trial: Trial) -> None:
    for rule in ("search", None):
        op = trial.op(once(5), 3, colocate="login")
        await trial.take(op)
        await trial.reset(op, rule)
        expect(await trial.left(op), [5], f"left after a reset of the rule {rule!r}")


@promises.add("a reset of what nobody knows is no error")
async def resets_nothing(trial: Trial) -> None:
    op = trial.op(once(5))
    await trial.reset(op, op.rule)
    await trial.reset(op, None)


@promises.add("granted tokens are there at once, on top of the limit")
async def grants(trial: Trial) -> None:
    for limit in slow(5):
        op = trial.op(limit, 4)
        expect(limit.remaining(await trial.grant(op, 3, HOUR_US)), 8, f"answer to 3 granted on 5, {limit.algorithm}")
        passes = [await trial.passes(op) for _ in range(3)]
        expect(passes, [True, True, False], f"whether 4 of 8, of 4 and of 0 tokens pass, {limit.algorithm}")
        expect(await trial.left(op), [0], f"left after it, {limit.algorithm}")


@promises.add("grants add up")
async def grants_add_up(trial: Trial) -> None:
    op = trial.op(once(5))
    found = [op.limit.remaining(await trial.grant(op, tokens, HOUR_US)) for tokens in (1, 2, 3)]
    expect(found, [6, 8, 11], "there after each of three grants")


@promises.add("a grant does not make a cost above the capacity possible")
async def grants_no_burst(trial: Trial) -> None:
    for limit in slow(5):
        op = trial.op(limit, 6)
        await trial.grant(op, 10, HOUR_US)
        expect(await trial.passes(op), False, f"whether 6 pass at once under 5 with 10 granted, {limit.algorithm}")
        expect(await trial.left(op), [15], f"left after it, {limit.algorithm}")


@promises.add("a grant is for one bucket")
async def grants_one(trial: Trial) -> None:
    op = trial.op(once(5))
    others = [trial.op(once(5), rule="other"), trial.op(once(5), client="other"), trial.op(slow(5)[1])]
    await trial.grant(op, 3, HOUR_US)
    expect(await trial.left(op, *others), [8, 5, 5, 5], "left in it and in others")


@promises.add("a reset takes granted tokens away")
async def resets_grants(trial: Trial) -> None:
    op = trial.op(once(5), 2)
    for rule in (op.rule, None):
        await trial.grant(op, 3, HOUR_US)
        await trial.take(op)
        await trial.reset(op, rule)
        expect(await trial.left(op), [5], f"left after a grant and a reset of the rule {rule!r}")


@promises.add("granted tokens lapse at their end, and not before", moves_time=True)
async def grants_lapse(trial: Trial) -> None:
    for limit in (once(5), *slow(5)[1:]):
        op = trial.op(limit)
        await trial.grant(op, 3, US)
        trial.advance(US - 1)
        expect(await trial.left(op), [8], f"there a microsecond before the end, {limit.algorithm}")
        trial.advance(1)
        expect(await trial.left(op), [5], f"there at the end, {limit.algorithm}")


@promises.add("grants last until the latest of their ends", moves_time=True)
async def grants_last(trial: Trial) -> None:
    op = trial.op(once(5))
    await trial.grant(op, 2, 10 * US)
    await trial.grant(op, 1, US)
    trial.advance(10 * US - 1)
    expect(await trial.left(op), [8], "there before the end of the first")
    trial.advance(1)
    expect(await trial.left(op), [5], "there at the end of the first")


@promises.add("a bucket's own tokens are spent before granted ones", moves_time=True)
async def own_first(trial: Trial) -> None:
    for limit in (once(5), *slow(5)[1:]):
        op = trial.op(limit, 4)
        await trial.grant(op, 3, US)
        await trial.take(op)
        trial.advance(US)
        expect(await trial.left(op), [1], f"own tokens left after 4 of 5 and 3 granted, {limit.algorithm}")


@promises.add("granted tokens that were spent do not grow again", moves_time=True)
async def grants_once(trial: Trial) -> None:
    for limit in quick(5):
        op = trial.op(limit, 5)
        await trial.grant(op, 5, DAY_US)
        await trial.take(op)
        await trial.take(op)
        trial.advance(HOUR_US)
        expect(await trial.left(op), [5], f"there when the bucket is full again, {limit.algorithm}")
