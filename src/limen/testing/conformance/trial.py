"""One store under test: for coroutines or for threads, it is asked in one way."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import isawaitable
from random import Random
from time import monotonic
from typing import Any
from uuid import uuid4

from limen.core.algorithm import AnyLimit, Seen
from limen.core.concurrency import SlotLimit, SlotsSeen
from limen.core.limit import Limit
from limen.errors import StoreError
from limen.stores.base import AsyncStore, Borrow, Charge, Charged, Op, Slot, Store
from limen.testing.clock import ManualClock
from limen.testing.conformance.crowd import in_tasks, in_threads
from limen.testing.conformance.promise import Broken, expect

__all__ = ["Trial", "passed"]

GIVEN_BACK_WITHIN_S = 5.0


class Trial:
    """A store, new for one promise. Its clients are new too: the store may be one that remembers.

    Args:
        store: what is tried.
        clock: what moves its time.
        seed: for stories that are made up.
    """

    def __init__(self, store: Store | AsyncStore, clock: ManualClock, seed: int) -> None:
        self.store: Any = store
        self.seed = seed
        self.random = Random(seed)
        self._clock = clock
        self._run = uuid4().hex
        self._blocks = True

    async def begin(self) -> None:
        started = self.store.start()
        self._blocks = not isawaitable(started)
        if not self._blocks:
            await started

    async def end(self) -> None:
        await self._ask(self.store.close)

    def op(self, limit: AnyLimit, cost: int = 1, client: str = "acme", rule: str = "search", **options: Any) -> Op:
        """An operation for a client of this trial."""
        return Op(f"{client} {self._run}", rule, limit, cost, **options)

    def slot(self, limit: SlotLimit, holder: str, client: str = "acme", rule: str = "exports", label: str = "") -> Slot:
        return Slot(f"{client} {self._run}", rule, limit, holder, label)

    async def take(self, *ops: Op) -> list[Seen]:
        """What was seen, and whether that is an answer at all."""
        return _checked(await self._ask(self.store.take, ops), ops)

    async def passes(self, *ops: Op) -> bool:
        """Take; whether everything was there."""
        return passed(ops, await self.take(*ops))

    async def left(self, *ops: Op) -> list[int]:
        """Whole tokens in each bucket; nothing is taken."""
        return [(await self._look(op)) for op in ops]

    async def expect_left(self, ops: Sequence[Op], wanted: list[int], what: str) -> None:
        """What was taken and is given back, because it was not decided in one step, may come back a little later."""
        found = await self.left(*ops)
        if found != wanted and not self.store.atomic(ops):
            give_up = monotonic() + GIVEN_BACK_WITHIN_S
            while found != wanted and monotonic() < give_up:
                await sleep(0.005)  # the pace of looking
                found = await self.left(*ops)
        expect(found, wanted, what)

    async def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        return _checked([await self._ask(self.store.grant, op, tokens, for_us)], [op])[0]

    async def borrow(self, borrow: Borrow) -> object:
        return await self._ask(self.store.borrow, borrow)

    async def charge(self, charge: Charge) -> Charged:
        charged = await self._ask(self.store.charge, charge)
        if type(charged) is not Charged:
            raise Broken(f"charge answers with Charged, not {charged!r}")
        _checked([charged.seen], [charge.op])
        return charged

    async def reset(self, op: Op, rule: str | None) -> None:
        await self._ask(self.store.reset, op.identity, rule, op.colocate)

    async def acquire(self, slot: Slot) -> SlotsSeen:
        seen = await self._ask(self.store.acquire, slot)
        if type(seen) is not SlotsSeen:
            raise Broken(f"acquire answers with SlotsSeen, not {seen!r}")
        return seen

    async def holds(self, slot: Slot) -> bool:
        """Acquire; whether it is held now."""
        return (await self.acquire(slot)).allows(slot.limit)

    async def renew(self, slot: Slot) -> bool:
        return bool(await self._ask(self.store.renew, slot))

    async def release(self, slot: Slot) -> bool:
        return bool(await self._ask(self.store.release, slot))

    async def at_once(self, method: str, questions: Sequence[Any]) -> list[Any]:
        """The answers to many questions that are asked at the same time."""
        ask = getattr(self.store, method)
        with _only_store_errors(ask):
            return in_threads(ask, questions) if self._blocks else await in_tasks(ask, questions)

    def now_us(self) -> int:
        return self._clock.now_us()

    def advance(self, us: int) -> None:
        """That much later; earlier when it is negative."""
        self._clock.set((self.now_us() + us) / 1_000_000)

    async def _look(self, op: Op) -> int:
        (seen,) = await self.take(op._replace(cost=0, spend=False))
        return op.limit.remaining(seen)

    async def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        with _only_store_errors(call):
            answer = call(*args)
            return await answer if isawaitable(answer) else answer


@contextmanager
def _only_store_errors(call: Callable[..., Any]) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise Broken(f"it could not be tried, because {_name(call)} raised StoreError: {error}") from error
    except Exception as error:
        raise Broken(f"{_name(call)} raised {error!r}; the only error of a store is a StoreError") from error


def _name(call: Callable[..., Any]) -> str:
    return getattr(call, "__name__", repr(call))


def passed(ops: Sequence[Op], found: Sequence[Seen]) -> bool:
    """Whether everything that is enforced was there."""
    return all(op.limit.allows(seen, op.cost) for op, seen in zip(ops, found, strict=True) if op.enforce)


def _checked(found: Any, ops: Sequence[Op]) -> list[Seen]:
    if not isinstance(found, Sequence) or len(found) != len(ops):
        raise Broken(f"take answers with one value for each of {len(ops)} operations, not {found!r}")
    for op, seen in zip(ops, found, strict=True):
        numbers = (seen,) if type(op.limit) is Limit else seen
        if type(numbers) is not tuple or any(type(number) is not int for number in numbers):
            raise Broken(f"what is seen under a {op.limit.algorithm} is whole numbers, not {seen!r}")
    return list(found)
