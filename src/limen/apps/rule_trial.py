"""Runs a rule test: the decisions that gateways make, on a clock that the test moves."""

from __future__ import annotations

from collections import Counter

from limen.core.decision import Decision
from limen.engine.limiter import Limiter
from limen.rules.case import Ask, ByName, Case, arrivals
from limen.rules.case_judge import Found
from limen.rules.path import canonical_path, segments_of
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.rules.why import why_not

__all__ = ["tried"]


class Clock:
    """Microseconds since 1970, as a test sets them."""

    def __init__(self, now_us: int) -> None:
        self.at_us = now_us

    def now_us(self) -> int:
        return self.at_us


class Tally:
    """What came of the requests of a test."""

    def __init__(self) -> None:
        self.allowed = 0
        self.denied_by: Counter[str] = Counter()
        self.shadow: set[str] = set()
        self.last: Decision | None = None

    def note(self, decision: Decision) -> None:
        self.last = decision
        self.shadow.update(decision.shadow)
        if decision.allowed:
            self.allowed += 1
        else:
            self.denied_by[str(decision.rule)] += 1


def tried(case: Case, ruleset: RuleSet) -> Found:
    """What comes of a test under these rules. It begins with full buckets.

    Raises:
        UsageError: the rules cannot answer what is asked, such as a name for a key of several parts.
    """
    clock, tally = Clock(case.at_us), Tally()
    with Limiter("memory://", ruleset, clock=clock) as limiter:
        first = case.streams[0].ask
        before = _looked(limiter, first)
        met = frozenset(rule for stream in case.streams for rule in _looked(limiter, stream.ask))
        for at_us, ask in arrivals(case.streams):
            clock.at_us = case.at_us + at_us
            tally.note(_decided(limiter, ask))
        left = {rule: remaining for rule, (_, remaining) in _looked(limiter, first).items()}
    costs = {rule: cost for rule, (cost, _) in before.items()}
    told = tally.last and tally.last.remaining
    why_not = _why_not(ruleset, first) if isinstance(first, Request) else {}
    return Found(costs, why_not, tally.allowed, dict(tally.denied_by), frozenset(tally.shadow), told, left, met)


def _decided(limiter: Limiter, ask: Ask) -> Decision:
    return limiter.check_request(ask) if isinstance(ask, Request) else limiter.check(*ask)


def _looked(limiter: Limiter, ask: Ask) -> dict[str, tuple[int, int | None]]:
    """Of each rule that applies: what is spent under it, and how many tokens are there."""
    if isinstance(ask, ByName):
        return {ask.rule: (ask.cost, limiter.peek(ask.client, ask.rule, 0).remaining)}
    stories = limiter.explain(ask).rules
    return {
        story.rule.id: (story.op.cost, story.before and story.before.remaining)
        for story in stories
        if story.op is not None
    }


def _why_not(ruleset: RuleSet, request: Request) -> dict[str, str]:
    """Of each rule that does not apply: why."""
    segments = segments_of(canonical_path(request.path))
    found = ((rule.id, why_not(rule, request, segments)) for rule in ruleset.rules)
    return {rule: why for rule, why in found if why is not None}
