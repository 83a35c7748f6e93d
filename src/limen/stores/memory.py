"""Buckets in this process: exact, thread-safe, bounded (`memory_cells`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, NamedTuple

from limen.core.algorithm import AnyLimit, Seen
from limen.core.calendar_window import CalendarWindow
from limen.core.carry import scaled, told
from limen.core.concurrency import SlotsSeen
from limen.core.limit import Limit
from limen.core.token_bucket import level_of, settle
from limen.stores.base import Borrow, Charge, Charged, Lent, Op, Slot, bucket_name, bucket_names
from limen.stores.fork import begin_anew_after_fork
from limen.stores.memory_cells import TIDY_FROM, Cells, Key
from limen.stores.memory_charges import MadeCharges, amount_of, drained, unit_of
from limen.stores.memory_loans import MemoryLoans
from limen.stores.memory_slots import HeldSlots
from limen.stores.memory_stamps import MemoryStamps, Stamp

__all__ = ["DEFAULT_MAX_BUCKETS", "MemoryStore"]

DEFAULT_MAX_BUCKETS = 1_000_000
MOST_GRANTED = 10**9
EXACT = 2**53


class Grant(NamedTuple):
    """Tokens on top of a bucket, and when they lapse."""

    tokens: int
    until_us: int


NO_GRANT = Grant(0, 0)


class Found(NamedTuple):
    """What was found in one bucket."""

    op: Op
    """With the limit by which the bucket counts: that of the question, unless that is late (`core.carry`)."""
    key: Key
    now_us: int
    own: Seen
    """Without what was granted."""
    grant: Grant
    seen: Seen
    """With it, in the words of the question."""
    asked: AnyLimit
    """The limit of the question."""
    stamp: Stamp | None

    @property
    def there(self) -> Seen:
        """With what was granted, by the limit that counts."""
        return self.op.limit.raised(self.own, self.grant.tokens)

    @property
    def fits(self) -> bool:
        return self.asked.allows(self.seen, self.op.cost)


class MemoryStore:
    """Buckets in a dictionary.

    Args:
        now_us: the clock, in microseconds; read once for each `take`, under the lock.
        max_buckets: the most that are remembered.
        epoch_us: the time of day, in microseconds since 1970, for calendars; by default the same clock.
        tidy_from: how many there are before those that say nothing any more are looked for.

    Raises:
        UsageError: there would be room for none.
    """

    state = "memory"
    carries = True

    def __init__(
        self,
        now_us: Callable[[], int],
        max_buckets: int = DEFAULT_MAX_BUCKETS,
        epoch_us: Callable[[], int] | None = None,
        tidy_from: int = TIDY_FROM,
    ) -> None:
        self._now_us = now_us
        self._epoch_us = epoch_us or now_us
        self._cells = Cells(max_buckets, tidy_from)
        self._stamps = MemoryStamps(self._cells)
        self._grants: dict[Key, Grant] = {}
        self._slots = HeldSlots()
        self._loans = MemoryLoans()
        self._charges = MadeCharges()
        self._lock = Lock()
        begin_anew_after_fork(self)

    def __len__(self) -> int:
        return len(self._cells)

    def start(self) -> None:
        """There is nothing to connect to."""

    def take(self, ops: Sequence[Op]) -> list[Seen]:
        with self._lock:
            now_us = self._now_us()
            found = [self._look(op, now_us) for op in ops]
            refusing = [bucket_of(each.op) for each in found if each.op.enforce and not each.fits]
            for each in found:
                if each.op.spend and each.op.cost and each.fits and not _stopped(each.op, refusing):
                    self._spend(each)
            return [each.seen for each in found]

    def take_one(self, key: Key, limit: Limit, cost: int) -> int:
        """`take` for a single enforced token bucket, at a third of the price; `cost` in ticks."""
        lock, clock = self._lock, self._now_us
        lock.acquire()  # a `with` statement costs twice as much, and a quarter of all this
        try:
            now_us = clock()
            cell = self._cells.get(key)
            if cell is None or cell.limit is not limit or now_us < cell.at_us or self._grants:
                return self._take_with_care(key, limit, cost, now_us)
            level: int = cell.state + (now_us - cell.at_us) * limit.ticks_per_us
            if level > limit.full_ticks:
                level = limit.full_ticks
            if level >= cost > 0:
                cell.state = level - cost
                cell.at_us = now_us
            return level
        finally:
            lock.release()

    def atomic(self, ops: Sequence[Op]) -> bool:
        """Always: everything is under one lock."""
        return True

    def grant(self, op: Op, tokens: int, for_us: int) -> Seen:
        with self._lock:
            now_us = self._now_us()
            found = self._look(op._replace(cost=0), now_us)
            self._forget_lapsed(now_us)
            until_us = max(found.grant.until_us, found.now_us + for_us)
            self._grants[found.key] = Grant(min(found.grant.tokens + tokens, _most_granted(op.limit)), until_us)
            return self._look(op._replace(cost=0), now_us).seen

    def borrow(self, borrow: Borrow) -> Lent:
        """Take a lease on tokens, take it anew, or give it back."""
        wanted, claim = borrow.op.cost, borrow.claim
        with self._lock:
            now_us = self._now_us()
            found = self._look(borrow.op._replace(cost=0), now_us)
            limit = found.op.limit
            assert type(limit) is Limit  # rules lend of no other kind
            settled = self._loans.settle(found.key, claim, now_us)
            level = min(limit.full_ticks, limit.raised(found.own, settled.back))
            tokens = min(wanted, settled.room, limit.remaining(level) // 2)
            if tokens or settled.back:
                self._put(found, limit.after(level, tokens))
            self._loans.write(found.key, settled, claim, tokens, now_us)
            return Lent(tokens, settled.kept, self._look(borrow.op._replace(cost=0), now_us).seen)

    def charge(self, charge: Charge) -> Charged:
        """Take what was admitted elsewhere, or as much of it as is there, once; then leave no more than so much."""
        op, most, name = charge
        with self._lock:
            now_us = self._now_us()
            found = self._look(op._replace(cost=0), now_us)
            there, unit = amount_of(found.there), unit_of(found.op)
            if most is not None and found.asked is not found.op.limit:
                most = scaled(most, unit, unit_of(op))
            due, taken = self._due((found.key, name), op.cost, there // unit, now_us)
            due *= unit
            amount = max(min(due, there), 0 if most is None else there - most)
            own, tokens = drained(amount, amount_of(found.own), found.grant.tokens, unit)
            if tokens:
                self._grants[found.key] = found.grant._replace(tokens=found.grant.tokens - tokens)
            if own:
                self._lower(found, own)
            return Charged(taken, self._look(op._replace(cost=0), now_us).seen)

    def _due(self, name: Hashable, cost: int, there: int, now_us: int) -> tuple[int, int]:
        """What is to be taken, and how much of it is there; or nothing, and what was taken under that name before."""
        made = self._charges.taken(name, now_us) if cost else 0
        if made is not None:
            return 0, made
        self._charges.make(name, min(cost, there), now_us)
        return cost, min(cost, there)

    def beat(self, gateway: str) -> tuple[int, int]:
        """There is nobody else."""
        return 1, 1

    def leave(self, gateway: str) -> None:
        """Nobody would see it."""

    def begin_anew(self, key: Key, limit: Limit, since_us: int) -> None:
        """Forget a bucket that was last spent from before `since_us` and by then held what a new one begins with."""
        with self._lock:
            cell = self._cells.get(key)
            if cell is not None and cell.at_us < since_us and self._level(key, limit, since_us) >= limit.start_ticks:
                self._cells.pop(key, None)

    def reset(self, identity: str, rule: str | None, colocate: str = "") -> None:
        with self._lock:
            for key in self._keys_of(identity) if rule is None else [(identity, name) for name in bucket_names(rule)]:
                self._cells.pop(key, None)
                self._grants.pop(key, None)

    def acquire(self, slot: Slot) -> SlotsSeen:
        with self._lock:
            return self._slots.acquire(slot, self._now_us())

    def renew(self, slot: Slot) -> bool:
        with self._lock:
            return self._slots.renew(slot, self._now_us())

    def release(self, slot: Slot) -> bool:
        with self._lock:
            return self._slots.release(slot, self._now_us())

    def begin_after_fork(self) -> None:
        """In a child process: another thread of the parent may have held the lock at that moment."""
        self._lock = Lock()

    def clear(self) -> None:
        """Forget everything."""
        self._cells.clear()
        self._grants.clear()
        self._slots.clear()
        self._loans.clear()
        self._charges.clear()
        self._stamps.clear()

    def sweep(self) -> None:
        """Drop every bucket that says nothing."""
        with self._lock:
            self._cells.sweep(self._now_us())

    def tidy(self, count: int) -> None:
        """The same for some of the oldest, so that nobody waits for it."""
        with self._lock:
            self._cells.tidy(self._now_us(), count)

    def close(self) -> None:
        self.clear()

    def _take_with_care(self, key: Key, limit: Limit, cost: int, now_us: int) -> int:
        """`take_one` for a new bucket, another limit, grants, and a clock that stepped back."""
        if self._grants or self._stamps:
            found = self._look(Op(*key, limit, cost // limit.token_ticks), now_us)
            if cost and found.fits:
                self._spend(found)
            return found.seen  # type: ignore[no-any-return]
        level = self._level(key, limit, now_us)
        if level >= cost > 0:
            self._cells.put(key, level - cost, now_us, limit)
        return level

    def _look(self, op: Op, now_us: int) -> Found:
        limit = op.limit
        key = (op.identity, bucket_name(op.rule, limit.algorithm))
        if type(limit) is CalendarWindow:
            now_us = self._epoch_us()
        stamp = None
        if op.carry is not None or self._stamps:
            stamp = self._stamps.look(op, key, now_us, self._epoch_us())
        grant = self._granted(key, now_us)
        if stamp is not None and stamp.limit is not limit and stamp.limit != limit:
            return self._look_late(op._replace(limit=stamp.limit), key, now_us, grant, limit, stamp)
        own = self._own(key, limit, now_us, op.cost - grant.tokens)
        seen = limit.raised(own, grant.tokens) if grant.tokens else own
        return Found(op, key, now_us, own, grant, seen, limit, stamp)

    def _look_late(self, op: Op, key: Key, now_us: int, grant: Grant, asked: AnyLimit, stamp: Stamp) -> Found:
        """The same for a question under a limit that is not the one that counts any more."""
        cost = min(op.cost, asked.capacity + 1)  # more than that is as impossible
        own = self._own(key, op.limit, now_us, cost - grant.tokens)
        seen = asked.raised(told(own, op.limit, asked), grant.tokens)
        return Found(op, key, now_us, own, grant, seen, asked, stamp)

    def _own(self, key: Key, limit: AnyLimit, now_us: int, cost: int) -> Seen:
        if type(limit) is Limit:
            return self._level(key, limit, now_us)
        cell = self._cells.get(key)
        if cell is None:
            return limit.look(None, now_us, cost)
        if limit.stepped_back(cell.state, now_us):
            self._cells.put(key, limit.spend(cell.state, now_us, 0), now_us, limit)
        return limit.look(cell.state, now_us, cost)

    def _spend(self, found: Found) -> None:
        """Take the cost: from the bucket what it has, the rest from what was granted."""
        op = found.op
        own = min(op.cost, op.limit.remaining(found.own))
        if own < op.cost:
            self._grants[found.key] = found.grant._replace(tokens=found.grant.tokens - op.cost + own)
        self._lower(found, own * unit_of(op))

    def _lower(self, found: Found, own: int) -> None:
        """Take that much of the bucket's own, in the unit of what is seen."""
        limit = found.op.limit
        if type(limit) is Limit:
            self._put(found, found.own - own)
        else:
            cell = self._cells.get(found.key)
            self._put(found, limit.spend(cell and cell.state, found.now_us, own))

    def _put(self, found: Found, state: Any) -> None:
        self._cells.put(found.key, state, found.now_us, found.op.limit)
        if found.stamp is not None:
            self._stamps.put(found.key, found.stamp, self._epoch_us())

    def _granted(self, key: Key, now_us: int) -> Grant:
        """What was granted on top of a bucket and is still good."""
        grant = self._grants.get(key)
        if grant is None:
            return NO_GRANT
        if grant.until_us <= now_us or not grant.tokens:
            del self._grants[key]
            return NO_GRANT
        return grant

    def _keys_of(self, identity: str) -> list[Key]:
        return [key for kept in (self._cells, self._grants) for key in kept if key[0] == identity]

    def _forget_lapsed(self, now_us: int) -> None:
        for key in [key for key, grant in self._grants.items() if grant.until_us <= now_us]:
            del self._grants[key]

    def _level(self, key: Key, limit: Limit, now_us: int) -> int:
        """What a token bucket holds. A clock that stepped back becomes the new state at once."""
        cell = self._cells.get(key)
        if cell is None:
            if limit.start_ticks < limit.full_ticks:  # it begins to fill now, also when this request is refused
                self._cells.put(key, limit.start_ticks, now_us, limit)
            return limit.start_ticks
        bucket = settle(cell.state, cell.limit, cell.at_us)
        level = level_of(bucket, limit, now_us)
        if now_us < bucket.anchor_us:
            cell.state, cell.at_us, cell.limit = level, now_us, limit
        return level


def bucket_of(op: Op) -> str:
    """The bucket of an operation, among those of its identity."""
    return bucket_name(op.rule, op.limit.algorithm)


def _stopped(op: Op, refusing: Sequence[str]) -> bool:
    """Whether a refusal stops an operation; that of the limit that it is a candidate for does not."""
    return any(bucket != op.beside for bucket in refusing)


def _most_granted(limit: AnyLimit) -> int:
    """As many as every store can tell exactly together with a full bucket."""
    if type(limit) is Limit:
        return min(MOST_GRANTED, (EXACT - limit.full_ticks) // limit.token_ticks)
    return MOST_GRANTED
