"""Why a request would be decided as it would be now, rule by rule. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from limen.core.algorithm import Seen
from limen.core.decision import Decision
from limen.engine.plan import Plan
from limen.rules.bound import bound_of, bound_to_document
from limen.rules.model import Rule
from limen.rules.path import canonical_path, segments_of
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Block, Flag, Override
from limen.rules.why import why_not
from limen.stores.base import Op

__all__ = ["Explanation", "Level", "Story", "explain"]


UNLIMITED = "it does not limit this client"
"""Why a rule does not apply whose limit an operator has lifted for the client or its plan."""


class Level(NamedTuple):
    """What is in a bucket."""

    remaining: int
    """Whole tokens, rounded down."""
    reset_after_ms: int | None
    """Until it is full: 0 when it is, None when it never will be."""


class Trial(NamedTuple):
    """A candidate, which stops nobody."""

    limit: int
    """Its capacity."""
    remaining: int
    """Whole tokens in its bucket."""
    allows: bool


class Story(NamedTuple):
    """One rule, and what it makes of the request."""

    rule: Rule
    why_not: str | None
    """Why it does not apply; None when it does."""
    op: Op | None = None
    """Whose bucket is asked, and for how much."""
    before: Level | None = None
    """None when nobody knows: the store is away and the rule is closed."""
    after: Level | None = None
    """What would be left. As before when the request is refused: then no bucket is charged."""
    allows: bool | None = None
    override: Override | None = None
    """The limit is that of this client, or of its plan."""
    candidate: Trial | None = None
    """What the candidate beside its limit makes of it."""


class Explanation(NamedTuple):
    """Everything at one moment. Nothing was spent."""

    request: Request
    decision: Decision
    rules: tuple[Story, ...]
    ruleset: RuleSet
    gateways: int
    """N, how many gateways are taken to share every limit."""
    shared: bool
    """Whether buckets are in a store."""
    said: Block | Flag | None = None
    """What decides before any rule does; the rules tell what they would have decided."""

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON."""
        return {
            "decision": self.decision.to_json(),
            "client": client_of(self.request),
            "request": _request(self.request),
            "standing": self.said and said_to_document(self.said),
            "rules": [self._story(story) for story in self.rules],
            "revision": self.ruleset.revision,
            "source": self.decision.source,
            "gateways": self.gateways,
        }

    def _story(self, story: Story) -> dict[str, Any]:
        rule, op = story.rule, story.op
        head = {"rule": rule.id, "version": self.ruleset.versions.get(rule.id), "applies": story.why_not is None}
        if op is None:
            return {**head, "why": story.why_not, "override": story.override and story.override._asdict()}
        bound = bound_of(rule, self.gateways, self.shared)
        return {
            **head,
            "mode": rule.mode,
            "on_failure": rule.on_failure,
            "algorithm": rule.algorithm,
            "limit": rule.limit.capacity if rule.limit else None,
            "override": story.override and story.override._asdict(),
            "share": None if op.limit is rule.limit else op.limit.capacity,
            "key_by": list(rule.key_by),
            "key": op.identity,
            "cost": op.cost,
            "allows": story.allows,
            "before": story.before and story.before._asdict(),
            "after": story.after and story.after._asdict(),
            "bound": bound and bound_to_document(bound, self.gateways),
            "candidate": story.candidate and story.candidate._asdict(),
        }


def explain(
    ruleset: RuleSet,
    request: Request,
    plan: Plan,
    seen: Sequence[Seen],
    allowed: bool,
    overrides: Mapping[str, Override] = MappingProxyType({}),
) -> tuple[Story, ...]:
    """What each rule makes of a request: those that apply first.

    Args:
        ruleset: the rules in force.
        request: the request.
        plan: what it asks of the store, or of the local shares.
        seen: what is in each bucket, in the order of `plan.ops`; empty when nobody knows.
        allowed: whether the request may pass, and buckets are charged for it.
        overrides: by rule, where its limit is that of this client or its plan.
    """
    segments = segments_of(canonical_path(request.path))
    known: Sequence[Seen | None] = seen or [None] * len(plan.ops)
    found: list[Story] = []
    for rule, op, each in zip(plan.rules, plan.ops, known, strict=True):
        if op.beside:
            found[-1] = found[-1]._replace(candidate=_trial(op, each))
        else:
            found.append(_applying(rule, op, each, allowed)._replace(override=overrides.get(rule.id)))
    applying = {story.rule.id for story in found}
    skipped = [
        Story(rule, why_not(rule, request, segments) or UNLIMITED, override=overrides.get(rule.id))
        for rule in ruleset.rules
        if rule.id not in applying
    ]
    return (*found, *skipped)


def _applying(rule: Rule, op: Op, seen: Seen | None, allowed: bool) -> Story:
    if seen is None:
        return Story(rule, None, op)
    fits = op.limit.allows(seen, op.cost)
    left = op.limit.after(seen, op.cost) if allowed and fits else seen
    return Story(rule, None, op, _level(op, seen), _level(op, left), fits)


def _trial(op: Op, seen: Seen | None) -> Trial | None:
    if seen is None:
        return None
    return Trial(op.limit.capacity, op.limit.remaining(seen), op.limit.allows(seen, op.cost))


def _level(op: Op, seen: Seen) -> Level:
    reset_us = op.limit.reset_after_us(seen)
    return Level(op.limit.remaining(seen), None if reset_us is None else -(-reset_us // 1000))


def said_to_document(said: Block | Flag) -> dict[str, Any]:
    """What an operator said, as JSON; times are Unix times in seconds."""
    if isinstance(said, Flag):
        return {"what": "flag", "by": "client", "name": said.client, "flag": "over_quota", "until": said.until}
    fields = {name: getattr(said, name) for name in ("by", "name", "reason", "until", "id")}
    return {"what": said.kind, **fields}


def client_of(request: Request) -> dict[str, Any]:
    """Who the client is, and what it is counted by where that is missing."""
    if request.client is not None:
        return {"name": request.client, "from": "client"}
    if request.ip is not None:
        return {"name": request.ip, "from": "ip"}
    return {"name": None, "from": "none"}


def _request(request: Request) -> dict[str, Any]:
    fields = {name: getattr(request, name) for name in ("method", "path", "host", "client", "plan", "user", "ip")}
    return {**fields, "headers": dict(request.headers)}
