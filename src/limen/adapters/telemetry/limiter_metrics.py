"""What a limiter tells of itself when somebody scrapes: its shards, its bounds, N, debts, leases.

Read at each scrape and never kept, so that what is gone (a rule, a shard) is gone from the metrics too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from weakref import ref

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from limen.core.bound import MECHANISMS, Bound
from limen.core.delays import Delays
from limen.rules.bound import bound_of
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Standing

__all__ = ["LimiterMetrics", "Watched"]


class Watched(Protocol):
    """A limiter, of coroutines or of threads. What it does not have is not shown."""

    @property
    def ruleset(self) -> RuleSet: ...
    @property
    def store_state(self) -> str: ...


class LimiterMetrics:
    """The metrics of one limiter."""

    def __init__(self, limiter: Watched) -> None:
        self._limiter: Any = limiter
        self._bounds: dict[str, Bound] = {}
        self._bounds_of: tuple[ref[RuleSet] | None, int] = None, 0
        """Which rules and gateways they are of. An old set is not kept for that."""

    @property
    def ruleset(self) -> RuleSet:
        """The rules in force."""
        ruleset: RuleSet = self._limiter.ruleset
        return ruleset

    @property
    def shards(self) -> Mapping[str, str]:
        """`up` or `down`, by name. Nothing for `memory://`, which cannot be away."""
        shards: Mapping[str, str] | None = getattr(self._limiter, "store_shards", None)
        if shards:
            return shards
        state: str = self._limiter.store_state
        return {} if state == "memory" else {"store": state}

    @property
    def drilling(self) -> float:
        """The share of clients in a drill, in per cent."""
        return float(getattr(self._limiter, "drilling", 0.0))

    def families(self) -> Iterator[Metric]:
        """Everything."""
        yield self._gauge("limen_drill_percent", "Clients for whom an outage is rehearsed.", self.drilling)
        yield self._gauge("limen_gateways", "N, by which a limit is shared while the store is away.", self._gateways)
        entries = getattr(self._limiter, "deny_cache_entries", 0)
        yield self._gauge("limen_deny_cache_entries", "Buckets that are known to refuse.", entries)
        yield from self._bound_families()
        yield self._standing()
        yield self._delays()
        yield from self._debts()
        yield from self._leases()
        yield from self._sample()

    def _standing(self) -> Metric:
        family = GaugeMetricFamily(
            "limen_standing_entries", "What operators said of single clients.", labels=["standing"]
        )
        standing: Standing | None = getattr(self._limiter, "standing", None)
        for what, count in (Standing() if standing is None else standing).count().items():
            family.add_metric([what], count)
        return family

    @property
    def _gateways(self) -> int:
        fleet = getattr(self._limiter, "fleet", None)
        return 1 if fleet is None else int(fleet.size)

    @staticmethod
    def _gauge(name: str, documentation: str, value: float) -> Metric:
        return GaugeMetricFamily(name, documentation, value)

    def _bound_families(self) -> Iterator[Metric]:
        ratio = GaugeMetricFamily(
            "limen_rule_overshoot_bound_ratio",
            "How much can pass beyond the limit, of the limit.",
            labels=["rule"],
        )
        part = GaugeMetricFamily(
            "limen_rule_overshoot_part_ratio", "What one mechanism adds to that.", labels=["rule", "mechanism"]
        )
        for rule, bound in self._known_bounds().items():
            ratio.add_metric([rule], bound.ratio)
            for mechanism in MECHANISMS:
                if added := bound.part_ratio(mechanism):
                    part.add_metric([rule, mechanism], added)
        yield ratio
        yield part

    def _known_bounds(self) -> dict[str, Bound]:
        """By rule. They change with the rules and with N."""
        ruleset, gateways = self.ruleset, self._gateways
        known, count = self._bounds_of
        if known is None or known() is not ruleset or count != gateways:
            shared = self._limiter.store_state != "memory"
            found = {rule.id: bound_of(rule, gateways, shared) for rule in ruleset.rules}
            self._bounds = {rule: bound for rule, bound in found.items() if bound is not None}
            self._bounds_of = ref(ruleset), gateways
        return self._bounds

    def _delays(self) -> Metric:
        family = HistogramMetricFamily(
            "limen_store_request_duration_seconds",
            "From a write to the reply to its last question, once for each write.",
            labels=["shard"],
        )
        delays: Mapping[str, Delays] = getattr(self._limiter, "store_delays", None) or {}
        for shard, each in delays.items():
            family.add_metric([shard], each.within(), each.total_s)
        return family

    def _debts(self) -> Iterator[Metric]:
        debts = getattr(self._limiter, "debts", None)
        if debts is not None:
            yield CounterMetricFamily("limen_settlements", "Charges that the store made afterwards.", debts.paid)
            yield CounterMetricFamily("limen_settlements_lost", "Those that were forgotten: too many.", debts.lost)
        lost = CounterMetricFamily(
            "limen_store_memory_lost", "A shard was found to have forgotten its buckets.", labels=["shard"]
        )
        counts: Mapping[str, int] = getattr(self._limiter, "memory_lost", None) or {}
        for shard in self.shards.keys() | counts.keys():  # from 0 on, or nobody sees the first one happen
            lost.add_metric([shard], counts.get(shard, 0))
        yield lost

    def _leases(self) -> Iterator[Metric]:
        leases = getattr(self._limiter, "leases", None)
        if leases is None:
            return
        yield self._gauge("limen_leases_held", "Buckets that tokens are on loan of here.", len(leases))
        for what in ("borrowed", "spent", "returned"):
            yield CounterMetricFamily(
                f"limen_leases_{what}_tokens", f"Tokens of leases: {what}.", getattr(leases, what)
            )

    def _sample(self) -> Iterator[Metric]:
        sampler = getattr(self._limiter, "sampler", None)
        if sampler is None:
            return
        yield CounterMetricFamily("limen_sample_requests", "Requests that were sampled.", sampler.heard_total)
        lost = sampler.dropped_total + sampler.failed_total
        yield CounterMetricFamily("limen_sample_lost", "Those of the sample that were not kept.", lost)
        yield self._gauge("limen_sample_share", "The part of the sample that its budget allows.", sampler.share)
