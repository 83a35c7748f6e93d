"""What a gateway remembers of those who were just refused.

An entry is a bound: what a bucket can hold at most by now, from what was seen in it. Others may have spent since,
nobody can have added, so whoever asks for more than the bound is refused without a word to the store, and a refused
cost of 10 never stops a cost of 1.

A request that the bound does not refuse goes to the store and lowers the bound by its cost at once: it is either
charged, or there was even less. So of a crowd that waited for one token only one asks for it. An entry is good for a
second, for somebody may have reset the bucket meanwhile; then one request asks, and the others are held to the bound
until its answer is there.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from limen.core.algorithm import AnyLimit, Seen
from limen.core.limit import Limit
from limen.stores.base import Op
from limen.stores.fork import begin_anew_after_fork

__all__ = ["DenyCache", "Key", "Refusal"]

Key = tuple[str, str]
"""Identity and rule."""


class Refusal:
    """What can be in a bucket that refused `cost`: `seen` at `at_us`, by the limit that refused."""

    __slots__ = ("at_us", "cost", "limit", "seen", "until_us", "used")

    def __init__(self, seen: Seen, at_us: int, until_us: int, limit: AnyLimit, cost: int) -> None:
        self.seen = seen
        self.at_us = at_us
        self.until_us = until_us
        self.limit = limit
        self.cost = cost
        self.used = False
        """Whether it has refused anybody since it was last passed over."""

    def charge(self, limit: Limit, cost: int, now_us: int) -> None:
        """Somebody goes to the store for `cost` tokens. In this order: a thread that reads between both passes."""
        level = self.seen + (now_us - self.at_us) * limit.ticks_per_us
        self.seen = max(0, min(level, max(self.seen, limit.full_ticks)) - cost * limit.token_ticks)
        self.at_us = now_us


class DenyCache:
    """Remembers refusals until they could succeed, for a second at most.

    An entry is good for the very limit that refused; a changed rule brings a new one. Threads may share it: entries
    come and go under a lock, and are read without it, one at a time.

    Args:
        max_entries: the most that are remembered. Beyond it goes, of some old ones, one that refused nobody lately, or
            else the one that ends first: whoever is refused again and again stays.
    """

    LONGEST_US = 1_000_000
    HOLD_US = 20_000
    """How long others wait for one that asks whether an entry still holds: longer than an answer can take."""
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
        if entry is None or entry.limit is not limit or now_us >= entry.until_us:
            return None
        most = limit.later(entry.seen, now_us - entry.at_us, cost, entry.cost)
        if most is not None:
            entry.used = True
        return most

    def asks(self, key: Key, limit: AnyLimit, cost: int, now_us: int) -> None:
        """Note that a request that is not refused here asks the store: others are held to what it leaves."""
        entry = self.entries.get(key)
        if entry is None:
            return
        known = limit.later(entry.seen, now_us - entry.at_us, cost, entry.cost) is not None
        if entry.limit is not limit or not (known or type(limit) is Limit):
            self.drop(key)
            return
        if not known and type(limit) is Limit:
            entry.charge(limit, cost, now_us)
        if now_us >= entry.until_us:
            entry.until_us = now_us + self.HOLD_US

    def remember(self, op: Op, seen: Seen, asked_us: int) -> None:
        """Note that `op` was refused by what was seen. `asked_us` is before the question left: waits never grow."""
        key, entry = (op.identity, op.rule), Refusal(seen, asked_us, asked_us + self.LONGEST_US, op.limit, op.cost)
        with self._lock:
            if asked_us < self._forgot_us:
                return  # what was reset or changed meanwhile may be what refused
            before = self.entries.pop(key, None)
            entry.used = before is not None
            self._make_room(asked_us)
            self.entries[key] = entry

    def spent(self, op: Op, left: Seen, asked_us: int) -> None:
        """Note that `op` was allowed, and what is left. Nothing is remembered that refuses nobody."""
        key = (op.identity, op.rule)
        entry = self.entries.get(key)
        if entry is None:
            return
        if type(op.limit) is not Limit or op.limit.allows(left, op.cost) or entry.limit is not op.limit:
            self.drop(key)
        else:
            self.remember(op, min(left, self._bound(entry, op.limit, asked_us)), asked_us)

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

    @staticmethod
    def _bound(entry: Refusal, limit: Limit, at_us: int) -> int:
        """What an entry says of a moment; earlier ones held less than it says."""
        grown: int = entry.seen + max(0, at_us - entry.at_us) * limit.ticks_per_us
        return grown

    def _make_room(self, now_us: int) -> None:
        """Drop what has run out, a few at a time; in a full map one more goes."""
        for _ in range(min(self.LOOKED_AT_PER_ENTRY, len(self.entries))):
            if next(iter(self.entries.values())).until_us <= now_us:
                self.entries.popitem(last=False)
        if len(self.entries) >= self._max_entries:
            self._evict()

    def _evict(self) -> None:
        oldest = [self.entries.popitem(last=False) for _ in range(min(self.LOOKED_AT_WHEN_FULL, len(self.entries)))]
        freed = min(oldest, key=lambda item: (item[1].used, item[1].until_us))
        for key, entry in oldest:
            if entry is not freed[1]:
                entry.used = False
                self.entries[key] = entry
