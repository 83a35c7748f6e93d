"""This gateway's part of every limit, spent while the store cannot answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from limen.core.algorithm import AnyLimit
from limen.core.limit import Limit
from limen.core.share import START
from limen.engine.fleet import Fleet
from limen.stores.base import Op
from limen.stores.memory import MemoryStore

__all__ = ["LocalShares"]


ANOTHER_US = 10_000_000
"""A server that failed within so long is in the same outage, whatever it, or another one, answered meanwhile."""
MOST_OUTAGES = 1000


class Outage:
    """A time in which a server does not answer: since when, and when that was last noticed."""

    __slots__ = ("began_us", "failed_us")

    def __init__(self, now_us: int) -> None:
        self.began_us = self.failed_us = now_us


class LocalShares:
    """C/N and r/N of each limit, for N gateways (`core.share`).

    A share begins with a tenth of its part, because the client may just have spent its limit elsewhere; a part of
    less than one token is saved up for, never rounded up. An outage of a server is a new one when the store has
    answered since and the last failure is a while ago; a share that has grown beyond that tenth is then back at it.

    Args:
        now_us: the local clock.
        fleet: N.
    """

    MAX_SHARES = 10_000
    MAX_BUCKETS = 100_000

    def __init__(self, now_us: Callable[[], int], fleet: Fleet) -> None:
        self._fleet = fleet
        self._parts = fleet.size
        self._store = MemoryStore(now_us, self.MAX_BUCKETS)
        self._shares: dict[tuple[AnyLimit, int], Limit] = {}
        self._outages: dict[str, Outage] = {}
        """By server."""
        self.answered_us = 0
        """When the store was asked last for something that it decided."""

    def __len__(self) -> int:
        return len(self._store)

    def parts(self, ops: Sequence[Op]) -> list[Op]:
        """The same operations on this gateway's parts of the limits."""
        if self._fleet.size != self._parts:
            self._parts = self._fleet.size
            self._shares.clear()
        return [op._replace(limit=self._share(op), carry=None) for op in ops]

    @property
    def count(self) -> int:
        """N, when the parts were made last."""
        return self._parts

    def take(self, parts: Sequence[Op], now_us: int, shard: str | None = "") -> list[int]:
        """Decide and take, as a store does; the levels before it.

        Args:
            shard: the server that did not answer; None when none was asked, so that an outage goes on as it is.
        """
        if shard is not None:
            self._begin_anew(parts, self._outage(shard, now_us).began_us)
        return self._store.take(parts)

    def forget(self, identity: str, rule: str | None) -> None:
        """Forget one bucket, or all buckets of an identity."""
        self._store.reset(identity, rule)

    def tidy(self, count: int) -> None:
        """Look at some, and drop what says nothing: shares of an outage that has been over for a while."""
        self._store.tidy(count)

    def _begin_anew(self, parts: Sequence[Op], since_us: int) -> None:
        """What was saved up before an outage is no part of it."""
        for op in parts:
            if isinstance(op.limit, Limit):
                self._store.begin_anew((op.identity, op.rule), op.limit, since_us)

    def _outage(self, shard: str, now_us: int) -> Outage:
        """The one that goes on now."""
        outage = self._outages.get(shard)
        if outage is None or (self.answered_us > outage.failed_us and now_us - outage.failed_us > ANOTHER_US):
            if len(self._outages) >= MOST_OUTAGES:
                self._outages.clear()
            outage = self._outages[shard] = Outage(now_us)
        outage.failed_us = now_us
        return outage

    def _share(self, op: Op) -> Limit:
        room = min(max(1, op.cost), op.limit.capacity)
        share = self._shares.get((op.limit, room))
        if share is None:
            if len(self._shares) > self.MAX_SHARES:
                self._shares.clear()
            share = self._shares[op.limit, room] = op.limit.share(self._parts, START, room)
        return share
