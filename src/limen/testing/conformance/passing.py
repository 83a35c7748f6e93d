"""Promises about time that passes, and about clocks that step."""

from __future__ import annotations

from limen.core.algorithm import AnyLimit
from limen.testing.conformance.limits import DAY_US, US, once, quick
from limen.testing.conformance.promise import Promises, expect
from limen.testing.conformance.trial import Trial

__all__ = ["promises"]

promises = Promises()

HOUR_US = 3600 * US
TEN = 10


@promises.add("what was refused passes when the wait that was told is over, and not before", moves_time=True)
async def waits(trial: Trial) -> None:
    for limit in quick(TEN):
        op = trial.op(limit, 3)
        while await trial.passes(op):
            trial.advance(1000)
        (seen,) = await trial.take(op)
        wait_us = limit.retry_after_us(seen, 3) or 0
        elapsed_us = 0
        for moment_us in (1, wait_us // 2, wait_us - 1):
            trial.advance(moment_us - elapsed_us)
            elapsed_us = moment_us
            what = f"whether it passes {wait_us - moment_us} µs before, {limit.algorithm}"
            expect(await trial.passes(op), False, what)
        trial.advance(wait_us - elapsed_us)
        expect(await trial.passes(op), True, f"whether it passes after {wait_us} µs, {limit.algorithm}")


@promises.add("a bucket is remembered until everything is there again", moves_time=True)
async def remembers(trial: Trial) -> None:
    for limit in quick(TEN):
        op = trial.op(limit, TEN)
        (seen,) = await trial.take(op)
        full_us = limit.reset_after_us(limit.after(seen, TEN)) or 0
        for part in (2, 4, 10, 1000):
            client = op._replace(identity=f"{op.identity} {part}")
            await trial.take(client)
            pause_us = full_us - full_us // part
            trial.advance(pause_us)
            found = (await trial.left(client))[0] < TEN
            expect(
                found,
                True,
                f"whether something is missing {full_us - pause_us} µs before it is full, {limit.algorithm}",
            )
            trial.advance(full_us - pause_us)
            expect(await trial.left(client), [TEN], f"there {full_us} µs later, {limit.algorithm}")


@promises.add("a quota that never comes back is remembered for 29 days", moves_time=True)
async def remembers_quotas(trial: Trial) -> None:
    op = trial.op(once(TEN), 7)
    await trial.take(op)
    trial.advance(29 * DAY_US)
    expect(await trial.left(op), [3], "left of 10 after 7, 29 days later")


@promises.add("a look, a refusal and a grant begin no window", moves_time=True)
async def begins_no_window(trial: Trial) -> None:
    for limit in quick(TEN)[1:]:
        op = trial.op(limit, 1)
        await trial.take(op._replace(cost=0))
        await trial.take(op._replace(spend=False))
        await trial.take(op._replace(cost=TEN + 1))
        await trial.grant(op, 1, US)
        trial.advance(3 * US)
        expect(await trial.take(op), [limit.look(None, trial.now_us(), 1)], f"seen by the first, {limit.algorithm}")


@promises.add("a clock that jumps ahead gives one capacity, not more", moves_time=True)
async def jumps_ahead(trial: Trial) -> None:
    for limit in quick(TEN):
        op = trial.op(limit)
        await admitted(trial, limit)
        trial.advance(400 * DAY_US)
        expect(await admitted(trial, limit), TEN, f"admitted after 400 days, {limit.algorithm}")
        expect(await trial.passes(op), False, f"whether one more passes, {limit.algorithm}")


@promises.add("a clock that jumps ahead and back gives at most one capacity more", moves_time=True)
async def jumps_ahead_and_back(trial: Trial) -> None:
    for limit in quick(TEN):
        total = await admitted(trial, limit)
        for step_us in (HOUR_US, -HOUR_US):
            trial.advance(step_us)
            total += await admitted(trial, limit)
        expect(total <= 2 * TEN, True, f"{total} were admitted under {TEN}, at most twice that, {limit.algorithm}")


@promises.add("a clock that steps back locks nobody out for longer than it takes to fill", moves_time=True)
async def steps_back(trial: Trial) -> None:
    for limit in quick(TEN):
        for step_us in (1, US, HOUR_US, 10 * DAY_US):
            op = trial.op(limit, TEN, client=f"client {step_us}")
            await trial.take(op)
            trial.advance(-step_us)
            await trial.take(op)
            full_us = limit.reset_after_us(limit.after(limit.look(None, trial.now_us(), TEN), TEN)) or 0
            trial.advance(full_us)
            what = f"there {full_us} µs after a step back by {step_us} µs, {limit.algorithm}"
            expect(await trial.left(op), [TEN], what)


@promises.add("a clock that steps back gives nothing", moves_time=True)
async def steps_back_for_nothing(trial: Trial) -> None:
    for limit in quick(TEN):
        for step_us in (1, US, 5 * US):
            op = trial.op(limit, TEN, client=f"client {step_us}")
            await trial.take(op)
            trial.advance(-step_us)
            expect(await trial.left(op), [0], f"there after a step back by {step_us} µs, {limit.algorithm}")


async def admitted(trial: Trial, limit: AnyLimit) -> int:
    """How many requests are let in one after the other, up to ten times the capacity."""
    op = trial.op(limit)
    count = 0
    while count < TEN * TEN and await trial.passes(op):
        count += 1
    return count


@promises.add("a tenth of the time brings a tenth of the tokens", moves_time=True)
async def grows(trial: Trial) -> None:
    op = trial.op(quick(TEN)[0], TEN)
    await trial.take(op)
    found = []
    for _ in range(TEN):
        trial.advance(US)
        found += await trial.left(op)
    expect(found, list(range(1, TEN + 1)), "there after each second of ten")
