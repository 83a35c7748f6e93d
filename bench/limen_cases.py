"""What Limen is measured doing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bench.case import Spend
from limen import AsyncLimiter, Limiter, Request, Rule
from limen.core.events import Observer

__all__ = ["check", "check_memory", "check_request", "check_two", "check_with_metrics", "denied"]

NEVER_REACHED = "1000000/minute"
"""No client comes near it, and no bucket is full again at the next check."""
PATIENT_MS = 1000.0
"""A check that is decided without the store, because the machine was busy for a moment, is not what is measured."""
BIG = Rule("big", limit=NEVER_REACHED)
ONCE = Rule("once", limit="1/hour")
PARTS = "/v1/thing-77/4711/parts"


def many_rules() -> list[Rule]:
    """200 rules, each on a path of its own."""
    return [
        Rule(f"rule-{number}", match={"methods": ["GET"], "path": f"/v1/thing-{number}/{{id}}/**"}, limit=NEVER_REACHED)
        for number in range(200)
    ]


@asynccontextmanager
async def _spending(store: str, rules: Sequence[Rule], observer: Observer | None = None) -> AsyncIterator[Spend]:
    async with AsyncLimiter(f"valkey://{store}", rules=rules, observer=observer, deadline_ms=PATIENT_MS) as limiter:
        ask, rule = limiter.check, rules[0].id

        async def spend(clients: Sequence[str]) -> None:
            for client in clients:
                await ask(client, rule)

        yield spend


def check(store: str) -> Any:
    """One rule, asked for by name."""
    return _spending(store, [BIG])


def check_with_metrics(store: str) -> Any:
    """The same, told to Prometheus."""
    from limen.adapters.telemetry.prometheus import PrometheusObserver

    return _spending(store, [BIG], PrometheusObserver())


def denied(store: str) -> Any:
    """Clients that are over their limit: all but one question a second is answered by the deny cache."""
    return _spending(store, [ONCE])


@asynccontextmanager
async def _requesting(store: str, rules: Sequence[Rule]) -> AsyncIterator[Spend]:
    async with AsyncLimiter(f"valkey://{store}", rules=rules, deadline_ms=PATIENT_MS) as limiter:
        ask = limiter.check_request

        async def spend(clients: Sequence[str]) -> None:
            for client in clients:
                await ask(Request("GET", PARTS, "api.example.com", client, "free", None, "192.0.2.7"))

        yield spend


def check_request(store: str) -> Any:
    """A whole request over 200 rules, of which one applies."""
    return _requesting(store, many_rules())


def check_two(store: str) -> Any:
    """The same, when a rule for the whole API applies too."""
    return _requesting(store, [Rule("all", match={"path": "/v1/**"}, limit="900000/minute"), *many_rules()])


@asynccontextmanager
async def check_memory(_: str) -> AsyncIterator[Spend]:
    """`Limiter.check`, in this process."""
    with Limiter("memory://", rules=[BIG]) as limiter:
        ask = limiter.check

        async def spend(clients: Sequence[str]) -> None:
            for client in clients:
                ask(client, "big")

        yield spend
