"""What a store is asked and what it answers.

A store does one thing: it looks at some buckets at one instant of *its* clock, and when every enforced operation
finds its tokens there, takes them all; else it takes none. It answers with the level of each bucket before that,
in ticks. Everything else (allowed, remaining, waits) follows from levels by arithmetic, in one place for all stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from limen.core.limit import Limit

__all__ = ["AsyncStore", "Op"]


class Op(NamedTuple):
    """One bucket to look at, and what to take from it."""

    identity: str
    """Whose bucket; with `rule` it names the bucket."""
    rule: str
    limit: Limit
    cost: int
    """Whole tokens, 0 or more. More than the capacity is answered, never taken."""
    enforce: bool = True
    """False: take when all enforced operations pass and the tokens are there, but stop nobody."""


class AsyncStore(Protocol):
    """Where buckets are kept, for coroutines."""

    @property
    def state(self) -> str:
        """`up`, `down`, or `memory` for a store that cannot be down."""

    async def start(self) -> None:
        """Begin to connect. Returns when connected or after a moment; never fails because the store is away."""

    async def take(self, ops: Sequence[Op]) -> Sequence[int]:
        """Decide and take in one step; the levels before it, in ticks, in the order of `ops`.

        Raises:
            StoreError: nothing is known about what was taken; the caller must not ask again.
        """

    async def reset(self, identity: str, rule: str | None) -> None:
        """Forget one bucket, or all buckets of an identity: they are full again."""

    async def close(self) -> None: ...
