"""Metrics count what was decided, under the promised names, with labels from closed sets."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.core.decision import Decision
from limen.core.delays import Delays
from limen.core.events import Observer
from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.errors import MissingExtra
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.standing import Block, Flag, Override, Standing

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


def test_what_operators_said_is_counted_apart_and_names_no_client() -> None:
    observer = PrometheusObserver()
    limiter = Limiter(rules=[Rule("search", limit="2/minute")], observer=observer)
    observer.watch(limiter)
    said = [Block("client", "bad"), Block("client", "worse"), Block("ip", "192.0.2.0/24", "allow")]
    limiter.use_standing(Standing(said, [Flag("full")], [Override("search", "client", "acme", "5/minute")]))
    for client in ("bad", "bad", "full", "acme"):
        limiter.check(client, "search")
    limiter.check_request(Request(ip="192.0.2.7"))
    found = samples(observer)
    assert {labels[0]: value for (name, labels), value in found.items() if name == "limen_standing_entries"} == {
        "block": 2, "allow": 1, "flag": 1, "override": 1
    }  # fmt: skip
    name = "limen_standing_decisions_total"
    assert [found[name, (each,)] for each in ("block", "flag", "allow")] == [2, 1, 1]
    assert found["limen_decisions_total", ("denied", "-", "none")] == 3
    assert b"bad" not in observer.render()


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


class House:
    """A limiter on a store that is not there, and what a scrape of its process reads."""

    def __init__(self, *rules: Rule, gateways: int = 4) -> None:
        self.observer = PrometheusObserver()
        self.limiter = AsyncLimiter("valkey://127.0.0.1:1", rules, gateways=gateways, observer=self.observer)
        self.observer.watch(self.limiter)

    def __getitem__(self, name: str) -> dict[tuple[str, ...], float]:
        return {labels: value for (found, labels), value in samples(self.observer).items() if found == name}


async def test_what_the_limiter_tells_of_itself_is_read_at_each_scrape() -> None:
    house = House(Rule("open", limit="100/minute"), Rule("closed", limit="100/minute", on_failure="closed"))
    async with house.limiter:
        await house.limiter.check("acme", "open")
        await house.limiter.check("acme", "closed")
        assert house["limen_degraded"] == {("open",): 1, ("closed",): 1}
        assert house["limen_breaker_state"] == {("127.0.0.1:1",): 1}
        assert house["limen_gateways"] == {(): 4}
        assert house["limen_store_memory_lost_total"] == {("127.0.0.1:1",): 0}
        assert sum(house["limen_store_errors_total"].values()) == 2
        assert house["limen_drill_percent"] == {(): 0}
        house.limiter.drill(25, 60)
        assert house["limen_drill_percent"] == {(): 25}


async def test_each_rule_has_its_bound_and_it_follows_n() -> None:
    house = House(Rule("tiny", limit="2/minute"), Rule("trial", limit="2/minute", mode="shadow"), gateways=2)
    assert house["limen_rule_overshoot_bound_ratio"] == {("tiny",): pytest.approx(0.1)}
    house.limiter.fleet.heard(6, 6)
    assert house["limen_rule_overshoot_bound_ratio"] == {("tiny",): 2}
    assert house["limen_rule_overshoot_part_ratio"] == {
        ("local_share", "tiny"): 2, ("empty_restart", "tiny"): pytest.approx(0.1),
    }  # fmt: skip


async def test_rules_that_are_gone_take_their_series_along() -> None:
    house = House(Rule("old", limit="900/minute"), Rule("kept", limit="900/minute"))
    async with house.limiter:
        for rule in ("old", "kept"):
            await house.limiter.check("acme", rule)
        assert b'"old"' in house.observer.render()
        house.limiter.use_rules([Rule("kept", limit="900/minute")])
        shown = house.observer.render()
        assert b'"old"' not in shown
        assert b'rule="kept"' in shown
        await house.limiter.check("acme", "kept")
        assert house["limen_decisions_total"]["allowed", "kept", "local_share"] == 2


async def test_servers_that_are_gone_take_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    monkeypatch.setattr(AsyncLimiter, "store_shards", {"a:1": "up", "b:1": "down"})
    for shard in ("a:1", "b:1", "gone:1", ""):
        house.observer.on_store_error("timeout", shard)
    assert house["limen_store_errors_total"] == {("timeout", shard): 1 for shard in ("a:1", "b:1", "-")}
    assert house["limen_breaker_state"] == {("a:1",): 0, ("b:1",): 1}


async def test_one_shard_that_is_away_keeps_a_rule_degraded_while_others_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(Rule("search", limit="9/minute"))
    monkeypatch.setattr(AsyncLimiter, "store_shards", {"a:1": "up", "b:1": "down"})
    house.observer.on_decision(ALLOWED._replace(degraded=True), 1)
    house.observer.on_decision(ALLOWED, 1)
    assert house["limen_degraded"] == {("search",): 1}
    monkeypatch.setattr(AsyncLimiter, "store_shards", {"a:1": "up", "b:1": "up"})
    assert house["limen_degraded"] == {("search",): 0}


async def test_how_long_servers_take_is_a_histogram_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    house, delays = House(), Delays()
    for delay_s in (0.0001, 0.0004, 0.004, 7.0, -1.0):
        delays.add(delay_s)
    monkeypatch.setattr(AsyncLimiter, "store_delays", {"a:1": delays})
    name = "limen_store_request_duration_seconds"
    buckets = {edge: value for (edge, _), value in house[f"{name}_bucket"].items()}
    assert [buckets[edge] for edge in ("0.0001", "0.0005", "0.005", "1", "+Inf")] == [2, 3, 4, 4, 5]
    assert house[f"{name}_count"] == {("a:1",): 5}
    assert house[f"{name}_sum"]["a:1",] == pytest.approx(7.0045)


async def test_a_process_that_stalls_measures_by_how_much_and_the_log_tells_of_rules(
    until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(Rule("search", limit="9/minute"))
    watching = asyncio.create_task(house.observer.keep_watch())
    house.observer.on_decision(ALLOWED._replace(degraded=True), 1)
    await until(lambda: house["limen_event_loop_lag_seconds_count"][()] > 0)
    time.sleep(0.4)  # noqa: ASYNC251 - this is the fault
    await until(lambda: house["limen_event_loop_lag_seconds_sum"][()] > 0.25)
    await until(lambda: "decided without the store now: rule search" in caplog.text)
    watching.cancel()
    await asyncio.wait([watching])


def test_a_limiter_of_threads_is_watched_too() -> None:
    observer = PrometheusObserver()
    with Limiter("memory://", [Rule("search", limit="2/minute")], observer=observer) as limiter:
        observer.watch(limiter)
        limiter.check("acme", "search")
        found = samples(observer)
    assert found["limen_rule_overshoot_bound_ratio", ("search",)] == 1
    assert not [labels for name, labels in found if name == "limen_breaker_state"]


def test_rules_of_the_database_that_cannot_be_used_are_shown_while_that_is_so() -> None:
    observer = PrometheusObserver()

    def shown() -> dict[str, float]:
        samples = [each for family in observer.registry.collect() for each in family.samples]
        return {each.labels["rule"]: each.value for each in samples if each.name == "limen_rule_errors"}

    assert shown() == {}
    observer.rules_broken({"search", "login"})
    assert shown() == {"search": 1, "login": 1}
    observer.rules_broken({"login", "no id\n{}", "../../etc"})
    assert shown() == {"login": 1, "-": 1}
    observer.rules_broken({f"r{number}" for number in range(10_000)})
    assert len(shown()) <= 20, "whoever writes there by hand makes no more series than that"
    observer.rules_broken(())
    assert shown() == {}


def test_how_many_are_behind_is_shown() -> None:
    observer = PrometheusObserver()
    observer.gateways_behind(3)
    assert observer.registry.get_sample_value("limen_gateways_behind") == 3
