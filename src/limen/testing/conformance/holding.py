"""Promises about concurrency limits."""

from __future__ import annotations

from limen.core.concurrency import SlotLimit
from limen.testing.conformance.limits import US, once
from limen.testing.conformance.promise import Promises, expect
from limen.testing.conformance.trial import Trial

__all__ = ["promises"]

promises = Promises()

LEASE_US = 30 * US
TWO = SlotLimit(2, LEASE_US)


@promises.add("no more slots are held than there are")
async def holds_so_many(trial: Trial) -> None:
    found = [await trial.acquire(trial.slot(TWO, holder)) for holder in "abc"]
    expect([seen.held for seen in found], [0, 1, 2], "slots that others held")
    expect([seen.allows(TWO) for seen in found], [True, True, False], "whether each of three holds one of two")


@promises.add("who acquires twice holds once")
async def holds_once(trial: Trial) -> None:
    first = trial.slot(TWO, "a")
    found = [(await trial.acquire(first)).held for _ in range(3)]
    expect(found, [0, 0, 0], "slots that others held")
    expect(await trial.holds(trial.slot(TWO, "b")), True, "whether the other slot is free")
    expect(await trial.holds(first), True, "whether who holds one of two still does when both are held")


@promises.add("a slot that is let go is free")
async def lets_go(trial: Trial) -> None:
    await trial.acquire(trial.slot(TWO, "a"))
    await trial.acquire(trial.slot(TWO, "b"))
    expect(await trial.release(trial.slot(TWO, "a")), True, "whether what was held is let go")
    expect(await trial.holds(trial.slot(TWO, "c")), True, "whether it can be had by another")
    expect(await trial.holds(trial.slot(TWO, "a")), False, "whether there is yet another")


@promises.add("letting go twice frees one slot")
async def lets_go_once(trial: Trial) -> None:
    for holder in "ab":
        await trial.acquire(trial.slot(TWO, holder))
    found = [await trial.release(trial.slot(TWO, "a")) for _ in range(3)]
    expect(found, [True, False, False], "whether it was held when it was let go, three times")
    found = [await trial.holds(trial.slot(TWO, holder)) for holder in "cd"]
    expect(found, [True, False], "whether each of two others gets one")


@promises.add("nobody can let go or renew what another holds")
async def only_the_holder(trial: Trial) -> None:
    one = SlotLimit(1, LEASE_US)
    await trial.acquire(trial.slot(one, "a"))
    expect(await trial.release(trial.slot(one, "b")), False, "whether another lets it go")
    expect(await trial.renew(trial.slot(one, "b")), False, "whether another renews it")
    expect(await trial.holds(trial.slot(one, "b")), False, "whether another gets it")
    expect(await trial.renew(trial.slot(one, "a")), True, "whether the holder can renew it")


@promises.add("clients and rules have their own slots, apart from their buckets")
async def has_its_own(trial: Trial) -> None:
    one = SlotLimit(1, LEASE_US)
    slots = [trial.slot(one, "a"), trial.slot(one, "b", client="other"), trial.slot(one, "c", rule="other")]
    bucket = trial.op(once(5), 3, rule=slots[0].rule)
    await trial.take(bucket)
    expect([await trial.holds(slot) for slot in slots], [True] * 3, "whether each holds a slot")
    await trial.release(slots[0])
    expect(await trial.left(bucket), [2], "left in the bucket of the same rule")
    expect([await trial.renew(slot) for slot in slots], [False, True, True], "whether each still holds its own")


@promises.add("slots with a label are held like others")
async def holds_labelled(trial: Trial) -> None:
    one = SlotLimit(1, LEASE_US)
    first, second = trial.slot(one, "a", label="login"), trial.slot(one, "b", label="login")
    expect([await trial.holds(slot) for slot in (first, second)], [True, False], "whether each holds the only slot")
    expect([await trial.renew(slot) for slot in (first, second)], [True, False], "whether each can renew it")
    expect([await trial.release(slot) for slot in (first, first)], [True, False], "whether it is let go, twice")


@promises.add("a slot lapses when its lease ends, and not before", moves_time=True)
async def lapses(trial: Trial) -> None:
    one = SlotLimit(1, LEASE_US)
    first, second = trial.slot(one, "a"), trial.slot(one, "b")
    await trial.acquire(first)
    trial.advance(LEASE_US - 1)
    seen = await trial.acquire(second)
    expect(tuple(seen), (1, 1), "slots held by others, and microseconds until one lapses")
    trial.advance(1)
    expect(await trial.holds(second), True, "whether it can be had when the lease has ended")


@promises.add("a slot that is renewed is held for another lease", moves_time=True)
async def renews(trial: Trial) -> None:
    one = SlotLimit(1, LEASE_US)
    first, second = trial.slot(one, "a"), trial.slot(one, "b")
    await trial.acquire(first)
    for _ in range(3):
        trial.advance(LEASE_US - 1)
        expect(await trial.renew(first), True, "whether it can be renewed")
    trial.advance(LEASE_US - 1)
    expect(await trial.holds(second), False, "whether another gets it before the lease ends")


@promises.add("a slot that has lapsed is neither renewed nor let go", moves_time=True)
async def stays_lapsed(trial: Trial) -> None:
    one = SlotLimit(1, LEASE_US)
    first, second = trial.slot(one, "a"), trial.slot(one, "b")
    await trial.acquire(first)
    trial.advance(LEASE_US)
    expect(await trial.renew(first), False, "whether it is renewed")
    expect(await trial.holds(second), True, "whether another gets it")
    expect(await trial.release(first), False, "whether it is let go by who held it")
    expect(await trial.renew(second), True, "whether the other still holds it")


@promises.add("a clock that steps back holds no slot for longer than a lease", moves_time=True)
async def survives_a_step(trial: Trial) -> None:
    one = SlotLimit(1, LEASE_US)
    await trial.acquire(trial.slot(one, "a"))
    trial.advance(-100 * LEASE_US)
    seen = await trial.acquire(trial.slot(one, "b"))
    expect(seen.first_lapses_us <= LEASE_US, True, f"it lapses in {seen.first_lapses_us} µs, at most a lease")
    trial.advance(LEASE_US)
    expect(await trial.holds(trial.slot(one, "b")), True, "whether it can be had a lease later")
