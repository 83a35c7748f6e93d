"""Tries one promise after the other and tells which are broken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from unittest import SkipTest

from limen.errors import UsageError
from limen.stores.base import AsyncStore, Store
from limen.testing.clock import ManualClock
from limen.testing.conformance import (
    carrying,
    crowding,
    granting,
    holding,
    lending,
    passing,
    settling,
    several,
    stories,
    taking,
)
from limen.testing.conformance.promise import Broken, Promise
from limen.testing.conformance.trial import Trial

__all__ = ["STORE_PROMISES", "store_conformance"]

AnyStore = Store | AsyncStore
MakeStore = Callable[[ManualClock], AnyStore]

START_S = 1_750_000_000
"""In June 2025: calendars need a time of day, and a store may count from some year."""
PATIENCE_S = 60
ALL: tuple[Promise, ...] = (
    *taking.promises, *several.promises, *granting.promises, *holding.promises, *lending.promises, *settling.promises,
    *carrying.promises, *crowding.promises, *passing.promises, *stories.promises,
)  # fmt: skip
BY_SENTENCE = {promise.sentence: promise for promise in ALL}

STORE_PROMISES = tuple(BY_SENTENCE)
"""What every store promises, in words."""


def store_conformance(
    make_store: MakeStore,
    promises: Iterable[str] = STORE_PROMISES,
    *,
    clock: ManualClock | None = None,
    moves_time: bool = True,
    seed: int = 1,
) -> list[str]:
    """Try a store, for threads (`limen.stores.base.Store`) or for coroutines (`AsyncStore`), on what it promises.

    Args:
        make_store: makes a store, not yet started, whose time is `now_us()` of the clock that it is given. It is
            called for each promise, in a running event loop. What an earlier store has kept may still be there.
        promises: which to try, some of `STORE_PROMISES`; all by default.
        clock: the clock to move, by `set`. Where a server keeps the time, give a ManualClock whose `set` tells it.
        moves_time: False when nothing moves the time of the store: promises about time are then left out.
        seed: for the stories that are made up; the same for the same stories.

    Returns:
        The promises that were left out.

    Raises:
        AssertionError: promises are broken; the message names each and what was seen.
        unittest.SkipTest: everything was left out.
        UsageError: there is no such promise, or it was called from a coroutine.

    Example:
        >>> from limen.stores.memory import MemoryStore
        >>> from limen.testing import store_conformance
        >>> store_conformance(lambda clock: MemoryStore(clock.now_us))
        []
    """
    _check_called_from_outside()
    asked = [_named(sentence) for sentence in promises]
    tried = [promise for promise in asked if moves_time or not promise.moves_time]
    if asked and not tried:
        raise SkipTest("it can be told only by moving the time of the store")
    _raise_broken(_broken(tried, make_store, clock or ManualClock(), seed), len(tried))
    return [promise.sentence for promise in asked if promise not in tried]


def _broken(tried: list[Promise], make_store: MakeStore, clock: ManualClock, seed: int) -> list[tuple[Promise, Broken]]:
    broken = []
    for promise in tried:
        try:
            asyncio.run(_try(promise, make_store, clock, seed))
        except Broken as seen:
            broken.append((promise, seen))
    return broken


async def _try(promise: Promise, make_store: MakeStore, clock: ManualClock, seed: int) -> None:
    clock.set(START_S)
    trial = Trial(make_store(clock), clock, seed)
    await trial.begin()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await promise.check(trial)
    except TimeoutError as error:
        raise Broken(f"no answer within {PATIENCE_S} s") from error
    finally:
        await trial.end()


def _raise_broken(broken: list[tuple[Promise, Broken]], tried: int) -> None:
    if broken:
        lines = [f"- {promise.sentence}\n    {seen}" for promise, seen in broken]
        raise AssertionError(f"{len(broken)} of {tried} promises broken:\n" + "\n".join(lines)) from broken[0][1]


def _named(sentence: str) -> Promise:
    if sentence not in BY_SENTENCE:
        raise UsageError(f"no store promises {sentence!r}; limen.testing.STORE_PROMISES has what they do promise")
    return BY_SENTENCE[sentence]


def _check_called_from_outside() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "call store_conformance from a plain function: it runs event loops of its own, also for coroutines"
    )
