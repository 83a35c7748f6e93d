"""What operators have said of single clients, applied to questions: before the rules, or in the place of their limits.

A limiter has one of these while there is anything to apply, and none otherwise, so that nothing is asked then. Plain
functions, no await, no store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import ceil

from limen.core.algorithm import AnyLimit
from limen.core.concurrency import SlotLimit
from limen.core.decision import Decision
from limen.engine.conclude import no_limit
from limen.errors import UsageError
from limen.rules.model import Rule
from limen.rules.override import covers, overridden
from limen.rules.request import Request
from limen.rules.standing import Block, Flag, Override, Standing

__all__ = ["Applied"]

log = logging.getLogger("limen")

NAMED_BY = {"client": "client", "user": "user", "ip": "ip"}
MOST_LIMITS = 10_000
"""Of one rule: different limits that are kept ready."""
ALLOWED = no_limit()._replace(standing="allow")

BLOCKED = ALLOWED._replace(allowed=False, retry_after_ms=None, reason="blocked", standing="block")

Variants = dict[str, dict[str, tuple[Rule, Rule]]]
"""By rule id and text of the limit: the rule that it was made of, and the rule with that limit."""


class Applied:
    """A standing, and the rules with other limits that it leads to.

    Args:
        standing: what was said.
        epoch_us: microseconds since 1970.
        before: what was applied until now; rules that it has made are used again.
    """

    def __init__(self, standing: Standing, epoch_us: Callable[[], int], before: Applied | None = None) -> None:
        self.standing = standing
        self.knows = standing.knows
        self._epoch_us = epoch_us
        self._variants: Variants = {} if before is None else before._variants

    def request(self, request: Request) -> Decision | None:
        """The decision about a request, if no rule is needed for it."""
        found = self.standing.judge(request.client, request.user, request.ip, self._now_s)
        return None if found is None else self._decision(found)

    def said_of(self, request: Request) -> Block | Flag | None:
        """What decides about a request before any rule does."""
        return self.standing.judge(request.client, request.user, request.ip, self._now_s)

    def name(self, name: str, rule: Rule) -> Decision | None:
        """The same for a bare name under one rule: it is what the rule counts by."""
        part = _counted(rule)
        if part is None:
            return None
        client, user, ip = (name if part == known else None for known in ("client", "user", "ip"))
        found = self.standing.judge(client, user, ip, self._now_s)
        return None if found is None else self._decision(found)

    def rule(self, rule: Rule, request: Request) -> Rule:
        """The rule for a request: as it is, or with the limit of the client or its plan."""
        said = self.override(rule, request)
        return rule if said is None else self._variant(rule, said)

    def override(self, rule: Rule, request: Request) -> Override | None:
        """What was said of a rule's limit for whoever sends this request."""
        if rule.id not in self.standing.overrides:
            return None
        client = request.client if covers(rule, "client") else None
        plan = request.plan if _has_plan(rule, request) else None
        return self.standing.override(rule.id, client, plan, self._now_s)

    def rule_for_name(self, rule: Rule, name: str) -> Rule:
        """The same for a bare name."""
        if rule.id not in self.standing.overrides:
            return rule
        client, plan = (name if rule.key_by == (part,) else None for part in ("client", "plan"))
        said = self.standing.override(rule.id, client, plan, self._now_s)
        return rule if said is None else self._variant(rule, said)

    def may_be(self, rule_id: str, limit: AnyLimit | SlotLimit) -> bool:
        """Whether this is the limit that somebody has under that rule."""
        made = self._variants.get(rule_id, {})
        return any(variant.limit == limit for _, variant in list(made.values()))

    def _now_s(self) -> float:
        return self._epoch_us() / 1_000_000

    def _decision(self, found: Block | Flag) -> Decision:
        if isinstance(found, Block) and found.kind == "allow":
            return ALLOWED
        if isinstance(found, Block) and found.until is None:
            return BLOCKED
        wait_ms = None if found.until is None else max(1, ceil((found.until - self._now_s()) * 1000))
        if isinstance(found, Flag):
            told = found.retry_after
            return _refused("flag", wait_ms if told is None else told * 1000)
        return _refused("block", wait_ms)

    def _variant(self, rule: Rule, said: Override) -> Rule:
        made = self._variants.setdefault(rule.id, {})
        known = made.get(said.limit)
        if known is not None and known[0] is rule:
            return known[1]
        if len(made) >= MOST_LIMITS:
            made.clear()
        try:
            variant = overridden(rule, said.limit)
        except UsageError as error:
            log.warning("the limit of %s %r is that of rule %r: %s", said.by, said.name, rule.id, error)
            variant = rule
        made[said.limit] = rule, variant
        return variant


def _refused(standing: str, wait_ms: int | None) -> Decision:
    return Decision(False, None, None, wait_ms, None, None, "blocked", "none", standing=standing)  # type: ignore[arg-type]


def _counted(rule: Rule) -> str | None:
    """What a bare name is, under this rule: `client`, `user`, `ip`, or nobody."""
    if not rule.key_by:
        return "client"
    return NAMED_BY.get(rule.key_by[0].partition("/")[0]) if len(rule.key_by) == 1 else None


def _has_plan(rule: Rule, request: Request) -> bool:
    """Whether the bucket of a request is of somebody who has a plan."""
    key_by = rule.key_by
    if "plan" in key_by or ("client" in key_by and request.client):
        return True
    return "user" in key_by and request.user is not None
