"""What a store is asked and what it answers.

A store does one thing: it looks at some buckets at one instant of *its* clock, and when every enforced operation
finds its tokens there, takes them all; else it takes none. It answers with what it saw in each bucket before that.
Everything else (allowed, remaining, waits) follows by arithmetic, in one place for all stores
(`limen.core.algorithm`).

`limen.testing.store_conformance` proves a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from limen.core.algorithm import ALGORITHMS, AnyLimit, Seen
from limen.core.concurrency import SlotLimit, SlotsSeen

__all__ = ["AsyncStore", "Op", "Slot", "Store", "bucket_name", "bucket_names"]


class Op(NamedTuple):
    """One bucket to look at, and what to take from it."""

    identity: str
    """Whose bucket; with `rule` and the algorithm of the limit it names the bucket."""
    rule: str
    limit: AnyLimit
    cost: int
    """Whole tokens, 0 or more. More than the capacity is answered, never taken."""
    enforce: bool = True
    """False: take when all enforced operations pass and the tokens are there, but stop nobody."""
    spend: bool = True
    """False: answer as if, take nothing."""
    colocate: str = ""
    """A label: the buckets of one label are kept where they can be decided together in one step."""


class Slot(NamedTuple):
    """One unit of a concurrency limit, and who holds it or wants to."""

    identity: str
    rule: str
    limit: SlotLimit
    holder: str
    """Names this holder alone: what it acquired twice it holds once, and nobody else can release it."""
    colocate: str = ""


def bucket_name(rule: str, algorithm: str) -> str:
    """What names a bucket of an identity. Another algorithm counts in another bucket."""
    return rule if algorithm == "token_bucket" else f"{rule} {algorithm}"


def bucket_names(rule: str) -> list[str]:
    """The names of all buckets that a rule can have had."""
    return [bucket_name(rule, algorithm) for algorithm in ALGORITHMS]


class AsyncStore(Protocol):
    """Where buckets are kept, for coroutines. Every method may raise `StoreError`."""

    @property
    def state(self) -> str:
        """`up`, `down`, or `memory` for a store that cannot be down."""

    async def start(self) -> None:
        """Begin to connect. Returns when connected or after a moment; never fails because the store is away."""

    async def take(self, ops: Sequence[Op]) -> Sequence[Seen]:
        """Decide and take in one step; what was seen before it, in the order of `ops`.

        Raises:
            StoreError: nothing is known about what was taken; the caller must not ask again.
        """

    def atomic(self, ops: Sequence[Op]) -> bool:
        """Whether `take` decides these in one step. If not, what was taken is given back when another denies."""

    async def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        """Add tokens to one bucket that lapse when they are not spent in time; what is there now."""

    async def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        """Forget one bucket (of every algorithm), or all buckets of an identity: they are full again."""

    async def acquire(self, slot: Slot) -> SlotsSeen:
        """Hold a slot if one is free."""

    async def renew(self, slot: Slot) -> bool:
        """Hold it for longer; False when it has lapsed."""

    async def release(self, slot: Slot) -> bool:
        """Let it go; False when it was not held any more."""

    async def close(self) -> None: ...


class Store(Protocol):
    """The same for code that blocks; safe to use from many threads."""

    @property
    def state(self) -> str: ...

    def start(self) -> None: ...

    def take(self, ops: Sequence[Op]) -> Sequence[Seen]: ...

    def atomic(self, ops: Sequence[Op]) -> bool: ...

    def grant(self, op: Op, tokens: int, for_us: int) -> Seen: ...

    def reset(self, identity: str, rule: str | None, colocate: str = "") -> None: ...

    def acquire(self, slot: Slot) -> SlotsSeen: ...

    def renew(self, slot: Slot) -> bool: ...

    def release(self, slot: Slot) -> bool: ...

    def close(self) -> None: ...
