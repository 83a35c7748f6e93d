"""Decisions as Prometheus metrics. Labels come from closed sets (rules, outcomes, sources); never from a client."""

from __future__ import annotations

from limen.core.decision import Decision
from limen.errors import MissingExtra

try:
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ImportError as error:
    raise MissingExtra("the Prometheus exporter", "service") from error

__all__ = ["PrometheusObserver"]

SECONDS = (
    0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.008, 0.02, 0.05, 0.1, 0.5, 1.0
)  # fmt: skip
"""Upper edges of the durations: from 0.1 ms, with 20 ms where Envoy stops waiting."""

NO_RULE = "-"
"""Label of decisions that no rule had a part in; no rule can have this id."""


class PrometheusObserver:
    """An observer with its own registry.

    Counting a decision is two additions and one lookup: `.labels()` costs more than both, so its children are kept.

    - `limen_decisions_total{rule,outcome,source}`: outcome is `allowed`, `denied`, `unavailable` (503), or
      `shadow_denied`, counted besides, for a rule in shadow mode that would have denied.
    - `limen_decision_duration_seconds`
    - `limen_store_errors_total{shard,kind}`, `limen_breaker_state{shard}`: 0 closed, 1 open
    - `limen_degraded{rule}`: 1 while the last decision of the rule was made without the store
    - `limen_rules_revision`, `limen_rules_last_reload_timestamp_seconds`, `limen_rules_load_errors_total`
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._decisions = Counter("limen_decisions", "Decisions.", ("rule", "outcome", "source"), registry=registry)
        self._duration = Histogram(
            "limen_decision_duration_seconds", "From question to answer.", buckets=SECONDS, registry=registry
        )
        self._store_errors = Counter(
            "limen_store_errors", "Questions that the store did not answer.", ("shard", "kind"), registry=registry
        )
        self._breaker = Gauge("limen_breaker_state", "0 closed, 1 open.", ("shard",), registry=registry)
        self._degraded = Gauge("limen_degraded", "1 while the rule is decided locally.", ("rule",), registry=registry)
        self._revision = Gauge("limen_rules_revision", "Revision of the rules in force.", registry=registry)
        self._reloaded = Gauge(
            "limen_rules_last_reload_timestamp_seconds", "When the rules were last loaded.", registry=registry
        )
        self._load_errors = Counter(
            "limen_rules_load_errors", "Rules that could not be loaded; the previous ones stay.", registry=registry
        )
        self._children: dict[tuple[str | None, str, str], Counter] = {}
        self._was_degraded: dict[str | None, bool] = {}

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        """Count one decision."""
        outcome = _outcome(decision)
        self._child(decision.rule, outcome, decision.source).inc()
        self._duration.observe(duration_us / 1_000_000)
        if decision.degraded is not self._was_degraded.get(decision.rule, False):
            self._was_degraded[decision.rule] = decision.degraded
            self._degraded.labels(decision.rule or NO_RULE).set(decision.degraded)
        for rule in decision.shadow:
            self._child(rule, "shadow_denied", decision.source).inc()

    def on_store_error(self, kind: str, shard: str = "0") -> None:
        """Count a question that the store did not answer."""
        self._store_errors.labels(shard, kind).inc()

    def breaker_state(self, is_open: bool, shard: str = "0") -> None:
        """Show whether a shard is decided without its store."""
        self._breaker.labels(shard).set(is_open)

    def rules_loaded(self, revision: int, unix_s: float) -> None:
        """Show that these rules are in force since `unix_s`."""
        self._revision.set(revision)
        self._reloaded.set(unix_s)

    def rules_refused(self) -> None:
        """Count rules that could not be loaded."""
        self._load_errors.inc()

    def render(self) -> bytes:
        """Everything, in the text format that Prometheus scrapes; its type is `content_type`."""
        return generate_latest(self.registry)

    def _child(self, rule: str | None, outcome: str, source: str) -> Counter:
        child = self._children.get((rule, outcome, source))
        if child is None:
            child = self._decisions.labels(rule or NO_RULE, outcome, source)
            self._children[rule, outcome, source] = child
        return child


def _outcome(decision: Decision) -> str:
    if decision.allowed:
        return "allowed"
    return "unavailable" if decision.reason == "store_unavailable" else "denied"
