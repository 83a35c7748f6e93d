"""A promise: a sentence, and how to find out whether it is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from limen.testing.conformance.trial import Trial

__all__ = ["Broken", "Check", "Promise", "Promises", "expect", "where_it_can"]

Check = Callable[["Trial"], Awaitable[None]]


class Broken(AssertionError):
    """How a store was seen to break a promise."""


class Promise(NamedTuple):
    """One thing that users of a store rely on."""

    sentence: str
    check: Check
    moves_time: bool
    """Whether it can be told only by moving the time of the store."""


class Promises(list[Promise]):
    """What is promised about one subject."""

    def add(self, sentence: str, *, moves_time: bool = False) -> Callable[[Check], Check]:
        """Name what the decorated function finds out."""

        def keep(check: Check) -> Check:
            self.append(Promise(sentence, check, moves_time))
            return check

        return keep


def where_it_can(method: str) -> Callable[[Check], Check]:
    """For what a store may leave out: one that has no such method breaks no promise about it."""

    def with_care(check: Check) -> Check:
        @wraps(check)
        async def if_it_can(trial: Trial) -> None:
            if hasattr(trial.store, method):
                await check(trial)

        return if_it_can

    return with_care


def expect(found: object, wanted: object, what: str) -> None:
    """Not `assert`: it must hold in an optimised Python too, and where nobody rewrites assertions."""
    if found != wanted:
        raise Broken(f"{what}: {found!r} instead of {wanted!r}")
