"""One decision, as a gateway process notes it and a test reads it: 40 bytes."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, get_args

from limen.core.decision import Decision, Reason, Source

__all__ = ["FORMAT", "Record", "packed_decision", "packed_failure", "records"]

FORMAT = Struct("<qqqIIHBBBB2x")
SOURCES: tuple[str, ...] = get_args(Source)
REASONS: tuple[str, ...] = (*get_args(Reason), "cancelled", "raised")
_source_at = {name: at for at, name in enumerate(SOURCES)}
_reason_at = {name: at for at, name in enumerate(REASONS)}


class Record(NamedTuple):
    """What was asked and answered. Times are CLOCK_MONOTONIC microseconds, the same in all processes."""

    invoked_us: int
    completed_us: int
    remaining: int
    """Whole tokens left; -1 where the decision does not say."""
    client: int
    """The number in the client's name."""
    cost: int
    status: int
    """200, 429, 503; 0 when there is no decision."""
    rule: int
    """The place of the rule in the fleet's list."""
    allowed: bool
    source: str
    reason: str
    """That of the decision; `cancelled` or `raised` when there is none."""
    gateway: int

    @property
    def took_us(self) -> int:
        return self.completed_us - self.invoked_us


def packed_decision(invoked_us: int, completed_us: int, client: int, cost: int, rule: int, found: Decision) -> bytes:
    """A decision, to be written to a file."""
    left = -1 if found.remaining is None else found.remaining
    source, reason = _source_at[found.source], _reason_at[found.reason]
    status, allowed = found.status, found.allowed
    return FORMAT.pack(invoked_us, completed_us, left, client, cost, status, rule, allowed, source, reason)


def packed_failure(invoked_us: int, completed_us: int, client: int, cost: int, rule: int, reason: str) -> bytes:
    """A question without an answer: its caller was cancelled, or an exception came out."""
    none = _source_at["none"]
    return FORMAT.pack(invoked_us, completed_us, -1, client, cost, 0, rule, False, none, _reason_at[reason])


def records(written: bytes, gateway: int) -> Iterator[Record]:
    """What a gateway wrote."""
    for fields in FORMAT.iter_unpack(written):
        allowed, source, reason = fields[-3:]
        yield Record(*fields[:-3], bool(allowed), SOURCES[source], REASONS[reason], gateway)
