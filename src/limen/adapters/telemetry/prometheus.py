"""Decisions as Prometheus metrics. Labels come from closed sets (rules, outcomes, sources); never from a client."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, get_args
from weakref import ref

from limen.adapters.telemetry.degradation import Degradation
from limen.adapters.telemetry.loop_lag import EVERY_S, measure_lag
from limen.core.decision import Compared, Decision, Said
from limen.core.delays import EDGES_S
from limen.errors import MissingExtra
from limen.rules.model import ID

try:
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.core import GaugeMetricFamily, Metric

    from limen.adapters.telemetry.limiter_metrics import LimiterMetrics, Watched
except ImportError as error:
    raise MissingExtra("the Prometheus exporter", "service") from error

if TYPE_CHECKING:
    from limen.rules.ruleset import RuleSet

__all__ = ["PrometheusObserver"]

LAGS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
LOOKS_PER_S = round(1 / EVERY_S)

NO_RULE = "-"
"""Label of decisions that no rule had a part in; no rule can have this id."""
MOST_BROKEN = 20
UNKNOWN = "-"
"""Label of a shard that nobody knows."""


class PrometheusObserver:
    """An observer with its own registry.

    Counting a decision is two additions and one lookup: `.labels()` costs more than both, so its children are kept.
    Everything that a limiter tells by itself is read when somebody scrapes, once it is watched (`watch`).

    - `limen_decisions_total{rule,outcome,source}`: outcome is `allowed`, `denied`, `unavailable` (503), or
      `shadow_denied`, counted besides, for a rule in shadow mode that would have denied.
    - `limen_candidate_decisions_total{rule,live,candidate}`: requests that everything else lets pass, by what the limit
      in force and the candidate beside it make of them, `allowed` or `denied`
    - `limen_standing_decisions_total{standing}`: of these, what a `block`, a `flag` or an `allow` decided, and no rule
    - `limen_decision_duration_seconds`
    - `limen_store_errors_total{shard,kind}`, `limen_breaker_state{shard}`: 0 closed, 1 open
    - `limen_degraded{rule}`: 1 while the rule is decided without the store, for some of its clients at least
    - `limen_event_loop_lag_seconds`: how late this process itself is, while `keep_watch` runs
    - `limen_rules_revision`, `limen_rules_last_reload_timestamp_seconds`, `limen_rules_load_errors_total`,
      `limen_rules_last_check_timestamp_seconds`, `limen_rules_stale`, `limen_rule_errors{rule}`
    - `limen_gateways_behind`
    - of the limiter: `limiter_metrics.py`
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        registry.register(self)  # first: whatever is gone is forgotten before the others are read
        self._decisions = Counter("limen_decisions", "Decisions.", ("rule", "outcome", "source"), registry=registry)
        self._duration = Histogram(
            "limen_decision_duration_seconds", "From question to answer.", buckets=EDGES_S, registry=registry
        )
        self._candidates = Counter(
            "limen_candidate_decisions", "What a candidate would decide.", ("rule", "live", "candidate"),
            registry=registry,
        )  # fmt: skip
        self._store_errors = Counter(
            "limen_store_errors", "Questions that the store did not answer.", ("shard", "kind"), registry=registry
        )
        self._lag = Histogram(
            "limen_event_loop_lag_seconds", "How late this process itself is.", buckets=LAGS_S, registry=registry
        )
        self._revision = Gauge("limen_rules_revision", "Revision of the rules in force.", registry=registry)
        self._reloaded = Gauge(
            "limen_rules_last_reload_timestamp_seconds", "When the rules were last loaded.", registry=registry
        )
        self._checked = Gauge(
            "limen_rules_last_check_timestamp_seconds", "When somebody last looked for new ones.", registry=registry
        )
        self._stale = Gauge("limen_rules_stale", "1 while the rules in force may be old.", registry=registry)
        self._load_errors = Counter(
            "limen_rules_load_errors", "Rules that could not be loaded; the previous ones stay.", registry=registry
        )
        self._behind = Gauge(
            "limen_gateways_behind", "Processes that are alive and have older rules than the database.",
            registry=registry,
        )  # fmt: skip
        self._broken = Gauge(
            "limen_rule_errors", "1 while what the database holds for it cannot be used.", ("rule",), registry=registry
        )
        said = Counter(
            "limen_standing_decisions", "What an operator said decided, and no rule.", ("standing",), registry=registry
        )
        self._said = {what: said.labels(what) for what in get_args(Said)}
        self._children: dict[tuple[str | None, str, str], Counter] = {}
        self._trials: dict[Compared, Counter] = {}
        self._error_children: dict[tuple[str, str], Counter] = {}
        self._breakers: dict[str, bool] = {}
        self._degradation = Degradation()
        self._degraded_rules = self._degradation.rules
        self._known_rules: set[str] = set()
        self._limiter: LimiterMetrics | None = None
        self._ruleset: ref[RuleSet] | None = None

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        """Count one decision."""
        rule = decision.rule
        outcome = _outcome(decision)
        self._child(rule, outcome, decision.source).inc()
        self._duration.observe(duration_us / 1_000_000)
        if rule is not None:
            if decision.degraded:
                self._known_rules.add(rule)
                self._degradation.without_store(rule, outcome == "unavailable")
            elif rule in self._degraded_rules:
                self._degradation.with_store(rule)
        elif decision.standing is not None:
            self._said[decision.standing].inc()
        for other in decision.shadow:
            self._child(other, "shadow_denied", decision.source).inc()
        for compared in decision.candidates:
            self._trial(compared).inc()

    def on_store_error(self, kind: str, shard: str = "") -> None:
        """Count a question that the store did not answer."""
        child = self._error_children.get((shard, kind))
        if child is None:
            child = self._error_children[shard, kind] = self._store_errors.labels(shard or UNKNOWN, kind)
        child.inc()
        self._degradation.unanswered(shard)

    def counted(self) -> dict[str, tuple[int, int]]:
        """By the rule that is shown: decisions so far, and of these the denied ones. Not what a local share decided:
        that says nothing of the rule. A rule that is gone is gone here too."""
        found: dict[str, tuple[int, int]] = {}
        for (rule, outcome, source), child in self._children.items():
            if source != "local_share" and outcome != "shadow_denied":
                count = int(child._value.get())  # what a scrape reads; the long way to it costs fifty times as much
                decisions, denied = found.get(rule or NO_RULE, (0, 0))
                found[rule or NO_RULE] = decisions + count, denied + (count if outcome == "denied" else 0)
        return found

    def breaker_state(self, is_open: bool, shard: str = "0") -> None:
        """Show whether a shard is decided without its store, where no limiter is watched."""
        self._breakers[shard] = is_open

    def rules_loaded(self, revision: int, unix_s: float) -> None:
        """Show that these rules are in force since `unix_s`."""
        self._revision.set(revision)
        self._reloaded.set(unix_s)

    def rules_checked(self, unix_s: float) -> None:
        """Show that somebody looked for new rules at `unix_s`."""
        self._checked.set(unix_s)

    def rules_stale(self, stale: bool) -> None:
        """Show whether the rules in force may be old."""
        self._stale.set(stale)

    def gateways_behind(self, count: int) -> None:
        """Show how many of the fleet have older rules than the database."""
        self._behind.set(count)

    def rules_broken(self, rules: Collection[str]) -> None:
        """Show which rules of the database cannot be used. What is no id of a rule is shown as `-`, and of many rules
        so many: somebody who writes into the database by hand makes no more series than that."""
        self._broken.clear()
        for rule in sorted(rule if ID.fullmatch(rule) else NO_RULE for rule in rules)[:MOST_BROKEN]:
            self._broken.labels(rule).set(1)

    def rules_refused(self) -> None:
        """Count rules that could not be loaded."""
        self._load_errors.inc()

    def watch(self, limiter: Watched) -> None:
        """Show what this limiter tells of itself, and forget rules and shards that it does not know any more."""
        self._limiter = LimiterMetrics(limiter)

    async def keep_watch(self) -> None:
        """Measure how late the event loop is, and write a line to the log when a rule begins or ends to be decided
        without the store. For as long as the task lives that runs this."""
        measured = 0

        def seen(lag_s: float) -> None:
            nonlocal measured
            self._lag.observe(lag_s)
            measured += 1
            if measured % LOOKS_PER_S == 0:
                self._look()

        await measure_lag(seen)

    def render(self) -> bytes:
        """Everything, in the text format that Prometheus scrapes; its type is `content_type`."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """What is read when somebody scrapes: called by the registry."""
        self._look()
        breaker = GaugeMetricFamily("limen_breaker_state", "0 closed, 1 open.", labels=["shard"])
        shards = self._shards()
        self._forget_other_shards(shards)
        for shard, is_open in shards.items():
            breaker.add_metric([shard], is_open)
        degraded = GaugeMetricFamily("limen_degraded", "1 while the rule is decided locally.", labels=["rule"])
        for rule in sorted(self._known_rules):
            degraded.add_metric([rule], rule in self._degraded_rules)
        yield breaker
        yield degraded
        if self._limiter is not None:
            yield from self._limiter.families()

    def _shards(self) -> dict[str, bool]:
        """Whether each is decided without."""
        if self._limiter is None:
            return self._breakers
        return {shard: state == "down" for shard, state in self._limiter.shards.items()}

    def _look(self) -> None:
        limiter = self._limiter
        if limiter is None:
            self._degradation.look({})
            return
        if self._ruleset is None or limiter.ruleset is not self._ruleset():
            self._use_rules(limiter.ruleset)
        self._degradation.look(limiter.shards, limiter.drilling > 0)

    def _use_rules(self, ruleset: RuleSet) -> None:
        """Drop what is known of rules that are gone."""
        self._ruleset = ref(ruleset)  # nobody keeps an old set longer than needed
        for key in [key for key in list(self._children) if key[0] is not None and key[0] not in ruleset.by_id]:
            del self._children[key]
            self._decisions.remove(*key)
        for trial in [trial for trial in list(self._trials) if trial.rule not in ruleset.by_id]:
            del self._trials[trial]
            self._candidates.remove(*_labels(trial))
        self._degradation.forget_others(ruleset.by_id)
        self._known_rules &= ruleset.by_id.keys()

    def _forget_other_shards(self, shards: Mapping[str, bool]) -> None:
        """Drop what was counted of servers that are not asked any more, for names of servers come and go."""
        gone = [key for key in list(self._error_children) if key[0] and key[0] not in shards]
        for shard, kind in gone if self._limiter is not None else ():
            del self._error_children[shard, kind]
            self._store_errors.remove(shard, kind)

    def _child(self, rule: str | None, outcome: str, source: str) -> Counter:
        child = self._children.get((rule, outcome, source))
        if child is None:
            child = self._decisions.labels(rule or NO_RULE, outcome, source)
            self._children[rule, outcome, source] = child
        return child

    def _trial(self, compared: Compared) -> Counter:
        child = self._trials.get(compared)
        if child is None:
            child = self._trials[compared] = self._candidates.labels(*_labels(compared))
        return child


def _labels(compared: Compared) -> tuple[str, str, str]:
    live, candidate = ("allowed" if allows else "denied" for allows in compared[1:])
    return compared.rule, live, candidate


def _outcome(decision: Decision) -> str:
    if decision.allowed:
        return "allowed"
    return "unavailable" if decision.reason == "store_unavailable" else "denied"
