"""Metrics count what was decided, under the promised names, with labels from closed sets."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.core.decision import Decision
from limen.core.events import Observer
from limen.engine.limiter import Limiter
from limen.errors import MissingExtra
from limen.rules.model import Rule

ALLOWED = Decision(True, 2, 1, 0, 30_000, "search", "allowed", "store")


def samples(observer: PrometheusObserver) -> dict[tuple[str, tuple[str, ...]], float]:
    """What a scrape reads: (name, values of the labels in the order of their names) to value."""
    families = text_string_to_metric_families(observer.render().decode())
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_decisions_are_counted_by_rule_outcome_and_source() -> None:
    observer = PrometheusObserver()
    told: Observer = observer
    for decision in (
        ALLOWED,
        ALLOWED,
        ALLOWED._replace(allowed=False, reason="over_limit", source="deny_cache"),
        ALLOWED._replace(allowed=False, reason="store_unavailable", source="none"),
        ALLOWED._replace(rule=None, source="none", shadow=("trial",)),
    ):
        told.on_decision(decision, 900)
    found = samples(observer)
    assert found["limen_decisions_total", ("allowed", "search", "store")] == 2
    assert found["limen_decisions_total", ("denied", "search", "deny_cache")] == 1
    assert found["limen_decisions_total", ("unavailable", "search", "none")] == 1
    assert found["limen_decisions_total", ("allowed", "-", "none")] == 1
    assert found["limen_decisions_total", ("shadow_denied", "trial", "none")] == 1


def test_durations_have_an_edge_at_a_tenth_of_a_millisecond_and_at_20_ms() -> None:
    observer = PrometheusObserver()
    for duration_us in (50, 900, 19_999, 30_000):
        observer.on_decision(ALLOWED, duration_us)
    found = samples(observer)
    name = "limen_decision_duration_seconds"
    assert [found[f"{name}_bucket", (edge,)] for edge in ("0.0001", "0.001", "0.02", "+Inf")] == [1, 2, 3, 4]
    assert found[f"{name}_sum", ()] == pytest.approx(0.050949)


def test_degraded_follows_the_last_decision_of_each_rule() -> None:
    observer = PrometheusObserver()
    observer.on_decision(ALLOWED, 1)
    assert ("limen_degraded", ("search",)) not in samples(observer)
    observer.on_decision(ALLOWED._replace(degraded=True), 1)
    assert samples(observer)["limen_degraded", ("search",)] == 1
    observer.on_decision(ALLOWED, 1)
    assert samples(observer)["limen_degraded", ("search",)] == 0


def test_store_breaker_and_rules_are_shown() -> None:
    observer = PrometheusObserver()
    observer.on_store_error("timeout")
    observer.on_store_error("down", "7")
    observer.breaker_state(True)
    observer.rules_loaded(12, 1_800_000_000.0)
    observer.rules_refused()
    found = samples(observer)
    assert found["limen_store_errors_total", ("timeout", "-")] == 1
    assert found["limen_store_errors_total", ("down", "7")] == 1
    assert found["limen_breaker_state", ("0",)] == 1
    assert found["limen_rules_revision", ()] == 12
    assert found["limen_rules_last_reload_timestamp_seconds", ()] == 1_800_000_000
    assert found["limen_rules_load_errors_total", ()] == 1


def test_clients_add_no_series(clock: Any) -> None:
    observer = PrometheusObserver()
    with Limiter("memory://", [Rule("search", limit="2/minute")], clock=clock, observer=observer) as limiter:
        limiter.check("first", "search")
        before = len(samples(observer))
        for number in range(2000):
            limiter.check(f"hostile-{number}", "search")
    assert len(samples(observer)) == before
    assert b"hostile" not in observer.render()


def test_without_its_library_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "limen.adapters.telemetry.prometheus")
    with pytest.raises(MissingExtra, match=r"limen\[service\]"):
        importlib.import_module("limen.adapters.telemetry.prometheus")


def test_two_observers_do_not_share_a_registry() -> None:
    first, second = PrometheusObserver(), PrometheusObserver()
    first.on_decision(ALLOWED, 1)
    assert ("limen_decisions_total", ("allowed", "search", "store")) not in samples(second)
    assert "version" in first.content_type
