"""What /metrics of a process promises to whoever scrapes it, and what it keeps to itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from limen.admin.repository import Repository

CANARY = "canary-4711-key"
NAMES = {
    "limen_decisions_total",
    "limen_decision_duration_seconds",
    "limen_store_errors_total",
    "limen_breaker_state",
    "limen_degraded",
    "limen_rules_revision",
    "limen_rules_last_reload_timestamp_seconds",
    "limen_rules_load_errors_total",
    "limen_rules_last_check_timestamp_seconds",
    "limen_rules_stale",
    "limen_rule_overshoot_bound_ratio",
    "limen_rule_overshoot_part_ratio",
    "limen_store_request_duration_seconds",
    "limen_store_memory_lost_total",
    "limen_settlements_total",
    "limen_event_loop_lag_seconds",
    "limen_gateways",
    "limen_drill_percent",
    "limen_deny_cache_entries",
    "limen_leases_held",
}


async def test_S29_S30_metrics_have_their_names_and_no_client_and_no_key(
    limen: Callable[..., Any], find_port: Callable[[], int], valkey_url: str, upstream: Any, tmp_path: Path
) -> None:
    url, ops = f"sqlite:///{tmp_path / 'rules.db'}", find_port()
    async with Repository(url) as repository, repository.change() as change:
        await change.put_rule("all", '{"id": "all", "key_by": ["client"], "limit": "1/day burst 5"}')
        await change.put_client("canary-client", "canary-plan", [CANARY])
    shared = ("--store", valkey_url, "--rules-db", url, "--ops-port", str(ops), "--deadline-ms", "1000")
    gateway = limen("gateway", "--upstream", upstream.url, *shared, ready="gateway on")

    async with aiohttp.ClientSession() as http:
        for key in (CANARY, *(f"canary-made-up-{number}" for number in range(20))):
            for path in ("/canary-path", "/canary%2Fpath"):
                async with http.get(gateway.url + path, headers={"X-API-Key": key, "User-Agent": "canary"}) as answer:
                    assert answer.status in (200, 400, 429)
        async with http.get(f"http://127.0.0.1:{ops}/metrics") as answer:
            assert answer.content_type == "text/plain"
            shown = await answer.text()

    assert {line.split()[2] for line in shown.splitlines() if line.startswith("# TYPE limen_")} >= NAMES
    counted = [line for line in shown.splitlines() if line.startswith("limen_decisions_total{")]
    assert 1 < len(counted) < 5
    assert "canary" not in shown
    assert "canary" not in (tmp_path / f"stderr-{gateway.port}.txt").read_text()
    with sqlite3.connect(tmp_path / "rules.db") as database:
        assert CANARY not in "\n".join(database.iterdump())
    database.close()
