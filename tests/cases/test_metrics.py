"""Public faults of metrics, none of which is ours. Each test is named after its case."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.errors import RuleError
from limen.rules.model import Rule
from limen.rules.request import Request

pytestmark = pytest.mark.parametrize("lab", ["Valkey"], indirect=True)


def counted(observer: PrometheusObserver, label: str) -> dict[str, float]:
    """Decisions by one of their labels, as a strict reader of the format sees them."""
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(observer.render().decode()):
        for sample in family.samples:
            if sample.name == "limen_decisions_total":
                found[sample.labels[label]] += int(sample.value)
    return dict(found)


async def test_ME_01_what_clients_choose_makes_no_series(lab: Any) -> None:
    observer = PrometheusObserver()
    rules = [Rule("keys", limit="2/minute"), Rule("paths", limit="5/minute", key_by=["ip"], match={"path": "/**"})]
    door = await lab.open(*rules, observer=observer)
    observer.watch(door.limiter)
    await door.request(Request(client="first", ip="192.0.2.1"))
    await door.take(client="first", rule="keys", cost=3)
    before = len(observer.render())
    for number in range(10_000):
        request = Request(f"METHOD{number % 50}", f"/unknown/{number % 100}", client=f"key-{number}", ip="192.0.2.1")
        if number % 20 == 0:
            await door.request(request)
    shown = observer.render()
    assert len(shown) < before * 1.5  # a refusal by each rule, and how long it took; not ten thousand clients
    grown = len(shown)
    for number in range(500):
        await door.request(Request("METHOD", f"/other/{number}", client=f"other-{number}", ip="192.0.2.1"))
    assert len(observer.render()) < grown * 1.05
    assert b"key-" not in shown
    assert b"unknown/" not in shown
    assert b"METHOD" not in shown


async def test_ME_01_a_thousand_overrides_come_and_go(lab: Any) -> None:
    observer = PrometheusObserver()
    door = await lab.open(Rule("always", limit="2/minute"), observer=observer)
    observer.watch(door.limiter)
    sizes = []
    for number in range(1000):
        door.use(Rule("always", limit="2/minute"), Rule(f"override-{number:04}", limit="1/minute"))
        if number % 100 == 0:
            await door.take(rule=f"override-{number:04}")
        sizes.append(len(observer.render()))
    assert max(sizes) < min(sizes) * 1.5
    assert sizes[-1] < sizes[200] * 1.05


async def test_ME_02_names_are_refused_or_read_as_they_are_written(lab: Any) -> None:
    for name in ("a.b-c/d", 'get "x"', "back\\slash", "line\nfeed", "é", "a" * 10_000, ""):
        with pytest.raises(RuleError):
            Rule(name, limit="1/minute")
    observer = PrometheusObserver()
    names = ["a.b-c_d", "0", "a" * 63]
    door = await lab.open(*(Rule(name, limit="1/minute") for name in names), observer=observer)
    observer.watch(door.limiter)
    for name in names:
        await door.take(rule=name)
    assert counted(observer, "rule") == dict.fromkeys(names, 1)


async def test_ME_04_each_call_is_counted_once_by_what_came_of_it(lab: Any) -> None:
    observer = PrometheusObserver()
    door = await lab.open(Rule("quota", capacity=10, refill_per_sec=0), observer=observer)
    given = [await door.take(rule="quota", cost=cost) for cost in (4, 4, 4, 1, 20)]
    assert [decision.allowed for decision in given] == [True, True, False, True, False]
    assert counted(observer, "outcome") == {"allowed": 3, "denied": 2}
    assert (await door.take(rule="quota", cost=4)).source == "deny_cache"
    assert counted(observer, "source") == {"store": 5, "deny_cache": 1}
    assert counted(observer, "outcome") == {"allowed": 3, "denied": 3}
