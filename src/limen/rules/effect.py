"""What a change of rules would have done to requests of the past: a value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["NO_EFFECT", "Affected", "Effect", "effect_to_document"]

NONE: Mapping[str, int] = MappingProxyType({})


class Affected(NamedTuple):
    """Somebody to whom it would have happened."""

    client: str
    """A pseudonym where the requests were sampled, the name or address where they come from a log."""
    plan: str | None
    newly_denied: int


class Effect(NamedTuple):
    """Requests of the past, decided by the rules before a change and by those after it.

    Requests are numbers of real ones: where one of a hundred clients was sampled, each of its requests counts for a
    hundred. Clients are those that were seen.

    Example: of 100 000 requests 200 would have been denied as before and 1 500 now: `newly_denied` is 1 300 when all
    that were denied before are denied still, and the ratio 0.013.
    """

    requests: int
    clients: int
    """Distinct ones that were seen, not scaled up."""
    denied_before: int
    denied_after: int
    newly_denied: int
    """Allowed before the change, and not after it."""
    newly_allowed: int
    clients_newly_denied: int
    """Distinct ones of those that were seen."""
    plans: Mapping[str, int] = NONE
    """Newly denied requests by the plan of their client; `-` for those without a plan. Most first."""
    rules: Mapping[str, int] = NONE
    """The same by the rule that would have denied them."""
    first_at: float | None = None
    """When the first of them would have been denied: Unix time in seconds; None when none would."""
    most: tuple[Affected, ...] = ()
    """To whom it would have happened most, ten at most."""
    since: float | None = None
    """When the first of all these requests came: Unix time in seconds; None when there were none."""
    until: float | None = None
    """The last of them."""
    covered: Mapping[str, int] = NONE
    """By rule, how many of the requests it applied to, before the change or after it: rules without any are left out.
    Of what it does not cover, a sample says nothing."""

    @property
    def newly_denied_ratio(self) -> float:
        """Newly denied requests, of all: 0 to 1."""
        return self.newly_denied / self.requests if self.requests else 0.0

    @property
    def denied_ratio_before(self) -> float:
        """Requests that are denied by the rules before, of all."""
        return self.denied_before / self.requests if self.requests else 0.0

    @property
    def denied_ratio_after(self) -> float:
        """Requests that are denied by the rules after, of all."""
        return self.denied_after / self.requests if self.requests else 0.0


NO_EFFECT = Effect(0, 0, 0, 0, 0, 0, 0)
"""Of no requests."""


def effect_to_document(effect: Effect) -> dict[str, Any]:
    """The effect as JSON."""
    return {
        **effect._asdict(),
        "newly_denied_ratio": round(effect.newly_denied_ratio, 6),
        "denied_ratio_before": round(effect.denied_ratio_before, 6),
        "denied_ratio_after": round(effect.denied_ratio_after, 6),
        "plans": dict(effect.plans),
        "rules": dict(effect.rules),
        "covered": dict(effect.covered),
        "most": [each._asdict() for each in effect.most],
    }
