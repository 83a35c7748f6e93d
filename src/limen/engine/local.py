"""What a gateway knows by itself: who was just refused, and its share of every limit while the store is away."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from fractions import Fraction
from threading import Lock

from limen.core.algorithm import AnyLimit, Seen
from limen.core.limit import Limit
from limen.stores.base import Op
from limen.stores.fork import begin_anew_after_fork
from limen.stores.memory import MemoryStore

__all__ = ["DenyCache", "LocalShares"]

Key = tuple[str, str]


class Refusal:
    """What was seen in a bucket that refused `cost`."""

    __slots__ = ("at_us", "cost", "limit", "seen", "until_us")

    def __init__(self, seen: Seen, at_us: int, until_us: int, limit: AnyLimit, cost: int) -> None:
        self.seen = seen
        self.at_us = at_us
        self.until_us = until_us
        self.limit = limit
        self.cost = cost


class DenyCache:
    """Remembers refusals until they could succeed, for a second at most.

    It keeps what was seen, not the refusal: what the bucket can hold by now is known as an upper bound (others may
    have spent since, nobody can have added), so a refused cost of 10 never stops a cost of 1. An entry is good for
    the very limit that refused; a changed rule brings a new one.

    Threads may share it: entries are changed under a lock, and read without it, one at a time.

    Args:
        max_entries: the most that are remembered; beyond it those with little time left go first.
    """

    LONGEST_US = 1_000_000
    LOOKED_AT_PER_ENTRY = 2
    LOOKED_AT_WHEN_FULL = 16

    def __init__(self, max_entries: int = 100_000) -> None:
        self.entries: OrderedDict[Key, Refusal] = OrderedDict()
        self._max_entries = max_entries
        self._forgot_us = 0
        self._lock = Lock()
        begin_anew_after_fork(self)

    def __len__(self) -> int:
        return len(self.entries)

    def seen(self, key: Key, limit: AnyLimit, cost: int, now_us: int) -> Seen | None:
        """The most that can be in a bucket, when that is known to be less than `cost` tokens; else None."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        if now_us >= entry.until_us or entry.limit is not limit:
            self.drop(key)
            return None
        return limit.later(entry.seen, now_us - entry.at_us, cost, entry.cost)

    def remember(self, op: Op, seen: Seen, asked_us: int) -> None:
        """Note that `op` was refused by what was seen. `asked_us` is before the question left: waits never grow."""
        wait_us = op.limit.retry_after_us(seen, op.cost)
        until_us = asked_us + (self.LONGEST_US if wait_us is None else min(wait_us, self.LONGEST_US))
        key = (op.identity, op.rule)
        with self._lock:
            if asked_us < self._forgot_us:
                return  # what was reset or changed meanwhile may be what refused
            self.entries.pop(key, None)
            self._make_room(asked_us)
            self.entries[key] = Refusal(seen, asked_us, until_us, op.limit, op.cost)

    def forget(self, identity: str, rule: str | None, now_us: int) -> None:
        """Forget one bucket, or all buckets of an identity, and refusals of before that arrive later."""
        with self._lock:
            self._forgot_us = now_us
            for key in [key for key in self.entries if key[0] == identity and rule in (None, key[1])]:
                del self.entries[key]

    def drop(self, key: Key) -> None:
        """What was known of a bucket is known no more."""
        with self._lock:
            self.entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything: the rules changed."""
        with self._lock:
            self.entries.clear()

    def begin_after_fork(self) -> None:
        """In a child process: another thread of the parent may have held the lock at that moment."""
        self._lock = Lock()

    def _make_room(self, now_us: int) -> None:
        """Drop what has run out, a few at a time, and in a full map the one of some old ones that ends first."""
        for _ in range(min(self.LOOKED_AT_PER_ENTRY, len(self.entries))):
            if next(iter(self.entries.values())).until_us <= now_us:
                self.entries.popitem(last=False)
        if len(self.entries) < self._max_entries:
            return
        oldest = [self.entries.popitem(last=False) for _ in range(min(self.LOOKED_AT_WHEN_FULL, len(self.entries)))]
        freed = min(oldest, key=lambda item: item[1].until_us)
        self.entries.update(item for item in oldest if item is not freed)


class LocalShares:
    """This gateway's part of each limit, C/N and r/N, spent while the store cannot answer.

    A share begins with a tenth of its part, because the client may just have spent its limit elsewhere; a part of
    less than one token is saved up for, never rounded up. An outage is a new one when the store has answered since
    the last; a share that has grown beyond that tenth is then back at it.

    Args:
        now_us: the local clock.
        gateways: N, how many processes decide.
    """

    START = Fraction(1, 10)
    MAX_SHARES = 10_000
    MAX_BUCKETS = 100_000

    def __init__(self, now_us: Callable[[], int], gateways: int) -> None:
        self._gateways = gateways
        self._store = MemoryStore(now_us, self.MAX_BUCKETS)
        self._shares: dict[tuple[AnyLimit, int], Limit] = {}
        self._began_us = now_us()
        self.store_answered = False
        """Set whenever the store decides: what follows is another outage."""

    def parts(self, ops: Sequence[Op]) -> list[Op]:
        """The same operations on this gateway's parts of the limits."""
        return [op._replace(limit=self._share(op)) for op in ops]

    def take(self, parts: Sequence[Op], now_us: int) -> list[int]:
        """Decide and take, as a store does; the levels before it."""
        if self.store_answered:
            self.store_answered, self._began_us = False, now_us
        for op in parts:
            if isinstance(op.limit, Limit):
                self._store.begin_anew((op.identity, op.rule), op.limit, self._began_us)
        return self._store.take(parts)

    def forget(self, identity: str, rule: str | None) -> None:
        """Forget one bucket, or all buckets of an identity."""
        self._store.reset(identity, rule)

    def _share(self, op: Op) -> Limit:
        room = min(max(1, op.cost), op.limit.capacity)
        share = self._shares.get((op.limit, room))
        if share is None:
            if len(self._shares) > self.MAX_SHARES:
                self._shares.clear()
            share = self._shares[op.limit, room] = op.limit.share(self._gateways, self.START, room)
        return share
