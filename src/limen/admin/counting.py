"""Tells every few seconds how much this process decided, and how much each rule denied; never in the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from limen.admin.repeating import Repeating

__all__ = ["EVERY_S", "Counted", "Counting", "Told"]

EVERY_S = 5.0
JITTER = 0.2


Counted = Mapping[str, tuple[int, int]]
"""By rule: decisions since the process began, and of these the denied ones."""


class Told(Protocol):
    """What is needed of `limen.admin.watches.Watches`."""

    async def tell(
        self, gateway: str, number: int, revision: int, requests: int, denied: Mapping[str, int]
    ) -> None: ...


class Counting(Repeating):
    """See the module.

    Args:
        told: where the word is left.
        gateway: of whom.
        counted: reads how much was decided.
        revision: reads which rules are in force. What was counted since they changed is told as that of those before.
        on_error: is told of every failure; must not raise. What could not be told is told the next time, under the
            same number: nobody knows whether it was heard.
        interval_s: seconds between two times, give or take a fifth.
    """

    def __init__(
        self,
        told: Told,
        gateway: str,
        counted: Callable[[], Counted],
        revision: Callable[[], int],
        on_error: Callable[[Exception], None],
        interval_s: float = EVERY_S,
    ) -> None:
        super().__init__(JITTER)
        self._told = told
        self._gateway = gateway
        self._counted = counted
        self._revision = revision
        self._on_error = on_error
        self._interval_s = interval_s
        self._number = 0
        self._last: Counted = {}
        self._last_revision = 0

    async def once(self) -> None:
        counted, revision = self._counted(), self._revision()
        grown = {rule: _grown(now, self._last.get(rule, (0, 0))) for rule, now in counted.items()}
        requests = sum(decisions for decisions, _ in grown.values())
        denied = {rule: count for rule, (_, count) in grown.items() if count}
        try:
            if requests:
                await self._told.tell(self._gateway, self._number + 1, self._last_revision, requests, denied)
                self._number += 1
        except Exception as error:  # noqa: BLE001 - whatever a database answers, a process goes on counting
            self._on_error(error)
        else:
            self._last, self._last_revision = counted, revision

    def pause_s(self) -> float:
        return self._interval_s


def _grown(now: tuple[int, int], before: tuple[int, int]) -> tuple[int, int]:
    """By how much counts have grown. Those of a rule that was deleted and made again begin anew."""
    if now[0] < before[0]:
        return now
    return now[0] - before[0], max(0, now[1] - before[1])
