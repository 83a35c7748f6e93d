"""What observers are given."""

from __future__ import annotations

from typing import Protocol

from limen.core.decision import Decision

__all__ = ["Observer"]


class Observer(Protocol):
    """Somebody who wants to know of decisions: metrics, a log, a sample of the traffic.

    Both methods are called on the path of every request: they must not block and must not raise.
    """

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        """A request was decided; `duration_us` is the time from question to answer."""

    def on_store_error(self, kind: str, shard: str) -> None:
        """The store did not decide; `kind` and `shard` as in `limen.errors.StoreError`."""
