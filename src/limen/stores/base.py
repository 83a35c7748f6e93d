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
from limen.core.carry import Carry
from limen.core.concurrency import SlotLimit, SlotsSeen
from limen.core.loans import Claim

__all__ = [
    "AsyncSharedStore",
    "AsyncStore",
    "Borrow",
    "Charge",
    "Charged",
    "Lent",
    "Op",
    "SharedStore",
    "Slot",
    "Store",
    "bucket_name",
    "bucket_names",
    "candidate_name",
]


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
    beside: str = ""
    """The bucket (`bucket_name`) of the limit that this one is a candidate for. It stops nobody, and is taken when its
    tokens are there and all enforced operations pass that are not on that bucket: as if it stood in its place."""
    carry: Carry | None = None
    """The limit is new, and buckets of the one before are converted to it (`core.carry`)."""


class Borrow(NamedTuple):
    """A lease to take, to take anew, or to give back: what a gateway says of it, and what it wants.

    `store.borrow(borrow)` answers what was `Lent`. It is optional on a store of your own; without it nothing is lent.
    """

    op: Op
    """The bucket, one of tokens; `cost` is how many whole tokens are wanted, 0 to give back only."""
    claim: Claim


class Lent(NamedTuple):
    """What came of it."""

    tokens: int
    """Whole tokens lent now, on top of what was kept: no more than was wanted, may be on loan, and half of what is
    there."""
    kept: int
    """Of the tokens that the gateway had left, those that the store knows of. They last as long as the new ones."""
    seen: Seen
    """What is in the bucket afterwards."""


class Charge(NamedTuple):
    """What a bucket is charged with afterwards: for what was admitted without the store, or forgotten by it.

    `store.charge(charge)` takes `op.cost` tokens, or as many as there are, once for each name; then no more than `most`
    is left. It answers what was `Charged`. It is optional on a store of your own; without it nothing is settled.
    """

    op: Op
    most: int | None
    """In the unit of `seen[0]`: ticks of a token bucket, else whole tokens. None: no such bound."""
    name: bytes
    """16 random bytes, or none when `op.cost` is 0."""


class Charged(NamedTuple):
    """What came of it."""

    tokens: int
    """Whole tokens that were taken under that name, now or when it was charged before."""
    seen: Seen
    """What is in the bucket afterwards."""


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


def candidate_name(rule: str) -> str:
    """Stands for the candidate of a rule where its id stands for the rule. No id has this sign."""
    return f"{rule}@candidate"


def bucket_names(rule: str) -> list[str]:
    """The names of all buckets that a rule can have had, those of its candidates too."""
    return [bucket_name(name, algorithm) for name in (rule, candidate_name(rule)) for algorithm in ALGORITHMS]


class AsyncStore(Protocol):
    """Where buckets are kept, for coroutines. Every method may raise `StoreError`.

    One that heeds `Op.beside` and `Op.carry` has an attribute `carries`; in one that does not, a candidate is taken
    only when the limit beside it allows too, and a new limit finds buckets as they are.
    """

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


class AsyncSharedStore(AsyncStore, Protocol):
    """What a store that many processes share can do besides; a store of your own may leave it out."""

    async def charge(self, charge: Charge) -> Charged:
        """Charge a bucket for what was admitted without the store, or forgotten by it."""

    async def borrow(self, borrow: Borrow) -> Lent:
        """Take a lease on tokens, take it anew, or give it back."""

    async def beat(self, gateway: str) -> tuple[int, int]:
        """This gateway is alive; how many are now, and how many were at one time within the last ten minutes."""

    async def leave(self, gateway: str) -> None:
        """This gateway is gone."""


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


class SharedStore(Store, Protocol):
    """What a store that many processes share can do besides, for code that blocks."""

    def charge(self, charge: Charge) -> Charged: ...

    def borrow(self, borrow: Borrow) -> Lent: ...

    def beat(self, gateway: str) -> tuple[int, int]: ...

    def leave(self, gateway: str) -> None: ...
