"""What the store said last of the buckets that it admitted something from."""

from __future__ import annotations

from collections.abc import Callable

from limen.core.algorithm import Seen
from limen.engine.deny_cache import Key
from limen.stores.base import Op

__all__ = ["Recent"]


class Recent:
    """Buckets that the store admitted something from in the last ten to twenty seconds, and what was in them then.

    Writing it down is on the path of every request: who is in a hurry does what `note` does without calling it.

    Args:
        most: how many are remembered, twice at most; of more, the last ones.
    """

    PERIOD_US = 10_000_000

    def __init__(self, most: int = 50_000) -> None:
        self.admitted: dict[Key, tuple[Op, Seen, int]] = {}
        """What was asked, what was seen before that, and when it was asked."""
        self.turns_us = 0
        """When to call `turn`."""
        self._before: dict[Key, tuple[Op, Seen, int]] = {}
        self._most = most
        self._full_us = 0

    def note(self, op: Op, seen: Seen, asked_us: int) -> None:
        """The store has taken the cost of `op` from what it saw."""
        if asked_us >= self.turns_us:
            self.turn(asked_us)
        self.admitted[op.identity, op.rule] = op, seen, asked_us

    def turn(self, now_us: int) -> None:
        """Forget what was before, when it is old or when there is too much; and look again soon."""
        if now_us >= self._full_us or len(self.admitted) >= self._most:
            self._before, self.admitted = self.admitted, {}
            self._full_us = now_us + self.PERIOD_US
        self.turns_us = now_us + self.PERIOD_US // 100

    def concerning(self, concerned: Callable[[str, str], bool]) -> list[tuple[Op, Seen, int]]:
        """Of those whose identity and label are concerned: the operation, what was left after it, and when."""
        known = {**self._before, **self.admitted}
        return [
            (op, op.limit.after(seen, op.cost), at_us)
            for op, seen, at_us in known.values()
            if concerned(op.identity, op.colocate)
        ]

    def remaining(self, op: Op) -> int:
        """Whole tokens that were left in a bucket when something was admitted from it last; 0 when nobody knows."""
        known = self.admitted.get((op.identity, op.rule)) or self._before.get((op.identity, op.rule))
        if known is None or known[0].limit != op.limit:
            return 0
        before, seen, _ = known
        return min(op.limit.capacity, op.limit.remaining(op.limit.after(seen, before.cost)))

    def forget(self, identity: str, rule: str | None) -> None:
        """Forget one bucket, or all buckets of an identity."""
        for known in (self.admitted, self._before):
            for key in [key for key in list(known) if key[0] == identity and rule in (None, key[1])]:
                known.pop(key, None)
