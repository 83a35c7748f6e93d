"""Whether what came of a rule test is what should have come. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from limen.rules.case import Case
from limen.rules.count import Count

__all__ = ["Failure", "Found", "judged"]


class Found(NamedTuple):
    """What came of a test."""

    costs: Mapping[str, int]
    """The rules that apply to the first request, and what it costs under each."""
    why_not: Mapping[str, str]
    """Of each other rule: why it does not apply."""
    allowed: int
    denied_by: Mapping[str, int]
    """How many each rule refused."""
    shadow: frozenset[str]
    """Rules in shadow mode that would have refused something."""
    remaining: int | None
    """As the last response tells it; None when nothing limits the request."""
    left: Mapping[str, int | None]
    """The same by rule, after the last request."""
    met: frozenset[str]
    """The rules that apply to one of the requests."""

    @property
    def denied(self) -> int:
        return sum(self.denied_by.values())


class Failure(NamedTuple):
    """One expectation that was not met."""

    field: str
    expected: str
    found: str
    line: int | None = None


def judged(case: Case, found: Found) -> list[Failure]:
    """What was not as it should be; nothing when the test has passed."""
    return [failure._replace(line=case.lines.get(failure.field, case.line)) for failure in _failures(case, found)]


def _failures(case: Case, found: Found) -> Iterator[Failure]:
    expected = case.expected
    if expected.matches is not None:
        yield from _rules("matches", expected.matches, frozenset(found.costs), found.why_not)
    if expected.cost is not None:
        yield from _costs(expected.cost, found)
    if expected.outcome is not None and (expected.outcome == "allowed") != bool(found.allowed):
        yield Failure("outcome", expected.outcome, "allowed" if found.allowed else f"denied by {_ids(found.denied_by)}")
    if expected.by is not None:
        yield from _rules("by", expected.by, frozenset(found.denied_by), {})
    if expected.shadow is not None:
        yield from _rules("shadow", expected.shadow, found.shadow, {})
    for field, wanted, number in (
        ("allowed", expected.allowed, found.allowed),
        ("denied", expected.denied, found.denied),
    ):
        if wanted is not None and not wanted.holds(number):
            yield Failure(field, str(wanted), f"{number} of {found.allowed + found.denied}")
    if expected.remaining is not None:
        yield from _remaining(expected.remaining, found)


def _rules(field: str, wanted: frozenset[str], there: frozenset[str], why_not: Mapping[str, str]) -> Iterator[Failure]:
    if wanted == there:
        return
    missing = [f"{rule}: {why_not[rule]}" for rule in sorted(wanted - there) if rule in why_not]
    yield Failure(field, _ids(wanted), "; ".join([_ids(there), *missing]))


def _costs(wanted: int | Mapping[str, int], found: Found) -> Iterator[Failure]:
    by_rule = wanted if isinstance(wanted, Mapping) else dict.fromkeys(found.costs, wanted)
    if not by_rule:
        yield Failure("cost", str(wanted), "no rule applies")
    for rule, cost in by_rule.items():
        if found.costs.get(rule) != cost:
            why = f"does not apply: {found.why_not.get(rule, 'it is not asked for')}"
            yield Failure("cost", f"{rule} {cost}", f"{rule} {found.costs.get(rule, why)}")


def _remaining(wanted: Count | Mapping[str, Count], found: Found) -> Iterator[Failure]:
    if isinstance(wanted, Count):
        if found.remaining is None or not wanted.holds(found.remaining):
            yield Failure("remaining", str(wanted), _number(found.remaining))
        return
    for rule, count in wanted.items():
        left = found.left.get(rule)
        if left is None or not count.holds(left):
            yield Failure("remaining", f"{rule} {count}", f"{rule} {_number(left)}")


def _number(number: int | None) -> str:
    return "nothing that is counted" if number is None else str(number)


def _ids(rules: Mapping[str, object] | frozenset[str]) -> str:
    return ", ".join(sorted(rules)) or "none"
