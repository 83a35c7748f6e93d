"""The answer to "may this client do this now?", for one bucket and for one request."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from limen.errors import RateLimited

__all__ = ["Compared", "Decision", "Policy", "Reason", "Said", "Source"]

Reason = Literal["allowed", "over_limit", "exceeds_capacity", "store_unavailable", "blocked"]
Source = Literal["store", "memory", "deny_cache", "lease", "local_share", "none"]
Said = Literal["block", "flag", "allow"]


class Policy(NamedTuple):
    """What a client is told about the limit that it met."""

    name: str
    """The public name of the rule."""
    quota: int
    """Whole tokens in a full bucket."""
    window_s: int | None
    """Seconds in which an empty bucket fills, rounded up; None when it never does."""


class Compared(NamedTuple):
    """What two limits of one rule make of a request that everything else lets pass."""

    rule: str
    live: bool
    """Whether the limit in force allows it."""
    candidate: bool
    """Whether the candidate beside it would."""


class Decision(NamedTuple):
    """The answer for one request. Times are whole milliseconds, rounded up.

    Example: the third request within a second under `2/minute` gives
    `Decision(allowed=False, limit=2, remaining=0, retry_after_ms=30000, reset_after_ms=60000, rule='search',
    reason='over_limit', source='store')`.
    """

    allowed: bool
    limit: int | None
    """Capacity of the bucket that is shown: the one nearest exhaustion. None when no limit applied."""
    remaining: int | None
    """Whole tokens left in it, rounded down, never negative. None when no limit applied, or none could be read."""
    retry_after_ms: int | None
    """Until the same request would pass: 0 when allowed, None for never."""
    reset_after_ms: int | None
    """Until that bucket is full again: 0 when it is; None when it never will be or no limit applied."""
    rule: str | None
    reason: Reason
    source: Source
    degraded: bool = False
    """The store could not be asked; a rule's `on_failure` decided."""
    shadow: tuple[str, ...] = ()
    """Rules in shadow mode that would have denied."""
    policy: Policy | None = None
    atomic: bool = True
    """All rules were decided in one step. False when their buckets lie on several shards of the store: each was asked
    at the same moment, and what was taken was given back when another denied."""
    standing: Said | None = None
    """What an operator had said of this client, when that decided and no rule did."""
    candidates: tuple[Compared, ...] = ()
    """What candidates made of it, where they were asked."""

    @property
    def status(self) -> int:
        """The HTTP status that says the same: 200, 429 or 503."""
        if self.allowed:
            return 200
        return 503 if self.reason == "store_unavailable" else 429

    def raise_if_denied(self) -> None:
        """Raise `RateLimited` when the request was denied, else do nothing."""
        if not self.allowed:
            raise RateLimited(self)

    def to_json(self) -> dict[str, Any]:
        """The decision as the check API shows it."""
        shown = self._asdict()
        del shown["policy"]
        if self.standing is None:
            del shown["standing"]
        if self.candidates:
            shown["candidates"] = [each._asdict() for each in self.candidates]
        else:
            del shown["candidates"]
        return {**shown, "shadow": list(self.shadow), "status": self.status}
