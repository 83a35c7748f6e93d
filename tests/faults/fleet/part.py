"""Some of the decisions that a fleet made: who made them, and how long they took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

from tests.faults.fleet.lateness import Lateness
from tests.faults.fleet.record import Record

__all__ = ["Part"]


class Part:
    """Some of the decisions, in the order of their questions."""

    def __init__(self, found: list[Record], late: dict[int, Lateness]) -> None:
        self.found = found
        self._late = late

    def __len__(self) -> int:
        return len(self.found)

    def where(self, holds: Callable[[Record], object]) -> Part:
        return Part([each for each in self.found if holds(each)], self._late)

    @cached_property
    def sources(self) -> Counter[str]:
        return Counter(each.source for each in self.found)

    @cached_property
    def statuses(self) -> Counter[int]:
        return Counter(each.status for each in self.found)

    @cached_property
    def reasons(self) -> Counter[str]:
        return Counter(each.reason for each in self.found)

    @property
    def degraded(self) -> Part:
        """What was decided without the store."""
        return self.where(lambda each: each.source == "local_share" or each.reason == "store_unavailable")

    def latency(self) -> dict[str, float]:
        """Milliseconds: `max`, `p99`, `p50`; the same as `own_max`, … without the time in which the event loop of the
        gateway was busy or was not given the processor; and `loop_max`, how long that was at most."""
        took = sorted(each.took_us for each in self.found)
        own = sorted(self.own_us(each) for each in self.found)
        loop = max(
            (self._late[each.gateway].within(each.invoked_us, each.completed_us) for each in self.found), default=0
        )
        named = {
            "max": at(took, 1), "p99": at(took, 0.99), "p50": at(took, 0.5), "own_max": at(own, 1),
            "own_p99": at(own, 0.99), "own_p50": at(own, 0.5), "loop_max": loop,
        }  # fmt: skip
        return {name: round(us / 1000, 3) for name, us in named.items()}

    def slowest_beyond_lateness(self) -> tuple[float, Record | None]:
        """The longest that a decision took beyond twice what the event loop was late meanwhile, in ms; and which."""
        slowest = max(self.found, key=self._beyond_us, default=None)
        return (0.0, None) if slowest is None else (self._beyond_us(slowest) / 1000, slowest)

    def _beyond_us(self, each: Record) -> int:
        return 2 * self.own_us(each) - each.took_us

    def lateness(self) -> float:
        """The part of the time that event loops were late meanwhile, of all gateways."""
        if not self.found:
            return 0.0
        start_us, end_us = self.found[0].invoked_us, max(each.completed_us for each in self.found)
        late_us = sum(late.within(start_us, end_us) for late in self._late.values())
        return late_us / (max(1, end_us - start_us) * len(self._late))

    def own_us(self, each: Record) -> int:
        """How long a decision took, without what the event loop was late."""
        return each.took_us - self._late[each.gateway].within(each.invoked_us, each.completed_us)


def at(ordered: Sequence[int], part: float) -> int:
    """The value below which that part of all lies; 0 of none."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0
