"""What a rule test says: who asks what and when, and what should come of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from heapq import merge
from typing import Literal, NamedTuple

from limen.rules.count import Count
from limen.rules.request import Request

__all__ = ["Ask", "ByName", "Case", "Expected", "Outcome", "Stream", "arrivals", "described"]

Outcome = Literal["allowed", "denied"]


class ByName(NamedTuple):
    """A check of one client under one rule, as `limiter.check(client, rule, cost)`."""

    client: str
    rule: str
    cost: int = 1


Ask = Request | ByName


class Stream(NamedTuple):
    """The same question, time and again."""

    ask: Ask
    times: int = 1
    interval_us: Fraction = Fraction(0)
    """From one to the next; 0: all at one moment."""
    after_us: int = 0
    """From the beginning of the test to the first."""

    def arrivals(self) -> Iterator[int]:
        """Microseconds from the beginning of the test."""
        return (self.after_us + int(index * self.interval_us) for index in range(self.times))


class Expected(NamedTuple):
    """What should come; None for what does not matter."""

    matches: frozenset[str] | None = None
    """The rules that apply to the first request."""
    cost: int | Mapping[str, int] | None = None
    """Of the first request: under every rule that applies, or by rule."""
    outcome: Outcome | None = None
    """Of a single request."""
    by: frozenset[str] | None = None
    """The rules that refused something."""
    shadow: frozenset[str] | None = None
    """The rules in shadow mode that would have refused something."""
    remaining: Count | Mapping[str, Count] | None = None
    """Whole tokens after the last request: as that response tells it, or by rule."""
    allowed: Count | None = None
    """Of the requests of a traffic."""
    denied: Count | None = None


class Case(NamedTuple):
    """One test. It begins with full buckets."""

    name: str
    at_us: int
    """When it begins, in microseconds since 1970: matters to windows of a calendar alone."""
    streams: tuple[Stream, ...]
    expected: Expected
    line: int | None = None
    """In its file."""
    lines: Mapping[str, int] = {}
    """Of its fields."""


def arrivals(streams: tuple[Stream, ...]) -> Iterator[tuple[int, Ask]]:
    """Every question at its time, earliest first; at one moment in the order in which the streams are written."""

    def timed(index: int, stream: Stream) -> Iterator[tuple[int, int]]:
        return ((at_us, index) for at_us in stream.arrivals())

    in_order = merge(*(timed(index, stream) for index, stream in enumerate(streams)))
    return ((at_us, streams[index].ask) for at_us, index in in_order)


def described(ask: Ask) -> str:
    """A question in a few words."""
    if isinstance(ask, ByName):
        return f"{ask.client} under {ask.rule}"
    who = ask.client or ask.user or ask.ip
    return f"{ask.method} {ask.path}" + (f" by {who}" if who else "")
