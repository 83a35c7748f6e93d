"""Promises about several operations that are decided together."""

from __future__ import annotations

from itertools import permutations

from limen.stores.base import Op
from limen.testing.conformance.limits import once, slow
from limen.testing.conformance.promise import Promises, expect
from limen.testing.conformance.trial import Trial

__all__ = ["promises"]

promises = Promises()


def three(trial: Trial, cost: int = 1) -> list[Op]:
    """Two rules of one client and a rule of another."""
    return [
        trial.op(once(5), cost, rule="a"),
        trial.op(once(6), cost, rule="b"),
        trial.op(once(7), cost, client="other", rule="a"),
    ]


@promises.add("all are taken when every enforced operation finds its tokens")
async def takes_all(trial: Trial) -> None:
    ops = three(trial, 2)
    expect(await trial.passes(*ops), True, "whether 2 of 5, 6 and 7 pass")
    await trial.expect_left(ops, [3, 4, 5], "left after it")


@promises.add("when one is refused nothing is taken, whoever the others belong to")
async def takes_none(trial: Trial) -> None:
    for refused in range(3):
        for limits in zip(slow(5), slow(6), slow(7), strict=True):
            names = (("acme", "a"), ("acme", "b"), ("other", "a"))
            ops = [
                trial.op(limit, 2, f"{client} {refused}", rule)
                for limit, (client, rule) in zip(limits, names, strict=True)
            ]
            ops[refused] = ops[refused]._replace(cost=ops[refused].limit.capacity + 1)
            expect(await trial.passes(*ops), False, f"whether all pass when number {refused + 1} is too much")
            await trial.expect_left(ops, [5, 6, 7], f"left after it, {ops[0].limit.algorithm}")


@promises.add("the order of the operations does not matter, and answers come in that order")
async def any_order(trial: Trial) -> None:
    for number, order in enumerate(permutations(range(3))):
        ops = [op._replace(identity=f"{op.identity} {number}") for op in three(trial, 1)]
        shuffled = [ops[place] for place in order]
        for before in ([5, 6, 7], [4, 5, 6]):
            seen = [op.limit.remaining(each) for op, each in zip(shuffled, await trial.take(*shuffled), strict=True)]
            expect(seen, [before[place] for place in order], f"seen in the order {order}")
        too_much = [op._replace(cost=4) for op in shuffled]
        seen = [op.limit.remaining(each) for op, each in zip(too_much, await trial.take(*too_much), strict=True)]
        expect(seen, [[3, 4, 5][place] for place in order], f"seen in the order {order} when one is refused")


@promises.add("a shadow operation is taken when its tokens are there")
async def shadow_takes(trial: Trial) -> None:
    ops = [op._replace(enforce=False) for op in three(trial)]
    expect(await trial.passes(*ops), True, "whether shadow operations pass")
    await trial.expect_left(ops, [4, 5, 6], "left after them")


@promises.add("a shadow operation stops nobody, and takes nothing when its tokens are not there")
async def shadow_stops_nobody(trial: Trial) -> None:
    first, second, shadow = three(trial)
    shadow = shadow._replace(cost=8, enforce=False)
    expect(await trial.passes(first, second, shadow), True, "whether the others pass when a shadow operation would not")
    await trial.expect_left((first, second, shadow), [4, 5, 7], "left after it")


@promises.add("a shadow operation takes nothing when an enforced one is refused")
async def shadow_is_stopped(trial: Trial) -> None:
    first, second, shadow = three(trial)
    refused = second._replace(cost=7)
    await trial.take(first, refused, shadow._replace(enforce=False))
    await trial.expect_left((first, second, shadow), [5, 6, 7], "left after a refusal")


@promises.add("an enforced operation that does not spend stops the others when its tokens are not there")
async def looks_stop(trial: Trial) -> None:
    first, second, look = three(trial)
    await trial.take(first, look._replace(cost=8, spend=False))
    await trial.expect_left((first, look), [5, 7], "left after a look that was refused")
    await trial.take(first, second, look._replace(cost=7, spend=False))
    await trial.expect_left((first, second, look), [4, 5, 7], "left after a look that passed")


@promises.add("twenty operations are decided as one")
async def takes_many(trial: Trial) -> None:
    ops = [trial.op(once(3), 1, client=f"client {at % 5}", rule=f"rule {at}") for at in range(20)]
    expect(await trial.passes(*ops), True, "whether twenty operations pass")
    refused = [*ops[:-1], ops[-1]._replace(cost=3)]
    expect(await trial.passes(*refused), False, "whether they pass when the last is too much")
    await trial.expect_left(ops, [2] * 20, "left in each of the twenty")


@promises.add("operations with one label are decided in one step")
async def one_step(trial: Trial) -> None:
    ops = [op._replace(colocate="login") for op in three(trial)]
    expect(trial.store.atomic(ops), True, "whether the store says that it decides them in one step")
    await trial.take(*ops)
    await trial.take(*ops[:2], ops[2]._replace(cost=7))
    await trial.expect_left(ops, [4, 5, 6], "left after one that passed and one that was refused")
