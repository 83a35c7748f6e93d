"""Promises that are tried on stories made up by chance, held against the arithmetic step by step.

Time only moves on, and a bucket has one limit: a store may forget a bucket in which everything is there again, and
then a clock that steps back, or another limit, would tell it from one that remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from limen.core import concurrency
from limen.core.algorithm import AnyLimit
from limen.core.concurrency import Held, SlotLimit
from limen.core.limit import Limit
from limen.stores.base import Op, Slot
from limen.testing.conformance.limits import DAY_US, MAKERS, US
from limen.testing.conformance.model import Model
from limen.testing.conformance.promise import Check, Promises, expect
from limen.testing.conformance.trial import Trial

__all__ = ["promises"]

promises = Promises()

STORIES = 25
CALLS = 15
PLACES = (("a", "r"), ("a", "s"), ("b", "r"))
LABELS = ("", "", "login")

Make = Callable[[Random], AnyLimit]


def follows_the_arithmetic(makers: Sequence[Make], grants: bool) -> Check:
    """Buckets under limits of these kinds, asked again and again."""

    async def check(trial: Trial) -> None:
        for number in range(STORIES):
            limits = [trial.random.choice(makers)(trial.random) for _ in PLACES]
            label = trial.random.choice(LABELS)
            buckets = [
                trial.op(limit, 0, f"{client} {number}", rule, colocate=label)
                for (client, rule), limit in zip(PLACES, limits, strict=True)
            ]
            await tell(trial, buckets, grants, f"story {number} of seed {trial.seed}")

    return check


for make, name in zip(
    MAKERS, ("token_bucket", "fixed_window", "calendar_window", "sliding_window", "sliding_log"), strict=True
):
    promises.add(f"{name} counts by the arithmetic", moves_time=True)(follows_the_arithmetic((make,), grants=False))
promises.add("algorithms of all kinds count together by the arithmetic", moves_time=True)(
    follows_the_arithmetic(MAKERS, grants=False)
)
promises.add("granted tokens count by the arithmetic", moves_time=True)(follows_the_arithmetic(MAKERS, grants=True))


async def tell(trial: Trial, buckets: Sequence[Op], grants: bool, story: str) -> None:
    """One story. Operations that this store would not decide in one step are asked one by one."""
    random, model = trial.random, Model()
    longest_us = max(_fill_us(op.limit) for op in buckets)
    for number in range(CALLS):
        trial.advance(_pause_us(random, longest_us))
        ops = [_asked(random, op) for op in random.sample(buckets, random.randint(1, len(buckets)))]
        ops = ops if trial.store.atomic(ops) else ops[:1]
        if grants and random.random() < 0.25:
            await _grant(trial, model, ops[0], longest_us, f"{story}, call {number}")
        else:
            found, wanted = await trial.take(*ops), model.take(ops, trial.now_us())
            expect(found, wanted, f"{story}, call {number}: seen by {ops}")


async def _grant(trial: Trial, model: Model, op: Op, longest_us: int, story: str) -> None:
    tokens, for_us = trial.random.randint(1, 7), trial.random.randint(1, 2 * longest_us)
    wanted = model.grant(op, tokens, for_us, trial.now_us())
    expect(
        await trial.grant(op, tokens, for_us),
        wanted,
        f"{story}: seen after a grant of {tokens} for {for_us} µs on {op}",
    )


def _asked(random: Random, op: Op) -> Op:
    """What is asked of a bucket: mostly to take a little."""
    capacity = op.limit.capacity
    cost = random.choice((0, 1, 1, 2, random.randint(0, capacity), capacity, capacity + 1))
    return op._replace(cost=cost, enforce=random.random() < 0.75, spend=random.random() < 0.75)


def _pause_us(random: Random, longest_us: int) -> int:
    """Nothing, a moment, some of the time in which a bucket fills, or more than that."""
    return random.choice(
        (0, random.randint(0, 3), random.randint(0, longest_us // 5), random.randint(0, 2 * longest_us))
    )


def _fill_us(limit: AnyLimit) -> int:
    if isinstance(limit, Limit):
        return limit.reset_after_us(0) or DAY_US
    return (limit.window_s or 1) * US


@promises.add("slots are held by the arithmetic", moves_time=True)
async def holds_by_the_arithmetic(trial: Trial) -> None:
    for number in range(STORIES):
        limit = SlotLimit(trial.random.randint(1, 4), trial.random.choice((100_000, US, 30 * US)))
        held: Held = {}
        for call in range(2 * CALLS):
            trial.advance(trial.random.choice((0, 1, limit.lease_us // 3, limit.lease_us)))
            slot = trial.slot(limit, trial.random.choice("abcdef"), client=f"client {number}")
            held = await _hold(trial, slot, held, f"story {number} of seed {trial.seed}, call {call}")


async def _hold(trial: Trial, slot: Slot, held: Held, story: str) -> Held:
    """One call about a slot; who holds slots after it."""
    call = trial.random.choice(("acquire", "acquire", "renew", "release"))
    now_us = trial.now_us()
    wanted: object
    if call == "acquire":
        wanted, held = concurrency.acquire(held, slot.limit, slot.holder, now_us)
    elif call == "renew":
        wanted, held = concurrency.renew(held, slot.limit, slot.holder, now_us)
    else:
        wanted, held = concurrency.release(held, slot.holder, now_us)
    expect(await getattr(trial, call)(slot), wanted, f"{story}: {call} by {slot.holder!r} of {slot.limit}")
    return held
