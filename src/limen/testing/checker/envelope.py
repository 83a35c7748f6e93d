"""What a limit lets through in an interval of any length: a burst, and a rate."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from limen.core.algorithm import AnyLimit
from limen.core.bound import Circumstances, bound_of_limit, rate_of
from limen.core.concurrency import SlotLimit
from limen.core.limit import US_PER_SEC
from limen.errors import UsageError
from limen.rules.limit_text import limit_from_text
from limen.rules.model import Rule

__all__ = ["Envelope", "envelope_of"]


class Envelope(NamedTuple):
    """At most `burst + per_us · T` tokens in any T microseconds, and `edge` more where the algorithm has it so."""

    burst: int
    per_us: Fraction
    edge: Fraction
    """Around the end of a fixed window all of it can pass twice."""

    def allowed(self, us: int) -> Fraction:
        return self.burst + self.per_us * us


def envelope_of(limit: str | Rule | AnyLimit) -> Envelope:
    """The envelope of a limit, as its bound is told against it.

    Raises:
        UsageError: a limit that is none in time.
    """
    if isinstance(limit, Rule):
        return _of_numbers(limit.limit)
    return _of_numbers(limit_from_text(limit) if isinstance(limit, str) else limit)


def _of_numbers(limit: AnyLimit | SlotLimit | None) -> Envelope:
    if limit is None or isinstance(limit, SlotLimit):
        raise UsageError(f"{limit!r} says nothing about how much may pass in an interval of time")
    always = (part.tokens for part in bound_of_limit(limit, Circumstances()).parts if part.always)
    return Envelope(limit.capacity, Fraction(rate_of(limit)) / US_PER_SEC, sum(always, Fraction(0)))
