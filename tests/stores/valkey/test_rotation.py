"""While one secret replaces another, no client is ever given more than its limit."""

from __future__ import annotations

from typing import Any

import pytest

from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.rules.model import Rule

OLD, NEW = "the secret of last year", "the secret of this year"
RULES = [Rule("r", limit="6/hour"), Rule("log", algorithm="sliding_log", limit="6/hour")]
PATIENT_MS = 20_000


def gateway(url: str, secret: str, previous: str | None = None) -> AsyncLimiter:
    return AsyncLimiter(url, RULES, secret=secret, previous_secret=previous, deadline_ms=PATIENT_MS)


@pytest.mark.parametrize("rule", ["r", "log"])
async def test_gateways_of_every_step_are_one_limit(valkey_url: str, rule: str) -> None:
    async with gateway(valkey_url, OLD) as old, gateway(valkey_url, NEW, OLD) as both, gateway(valkey_url, NEW) as new:
        first = [(await door.check("acme", rule)).remaining for door in (old, old, both, old, both)]
        assert first == [5, 4, 3, 2, 1]
        assert (await both.check("acme", rule)).allowed
        assert not (await both.check("acme", rule)).allowed
        assert not (await old.check("acme", rule)).allowed
        # What gateways with both secrets let pass is known under the new one when the old one is forgotten.
        assert (await new.check("acme", rule)).remaining == 6 - 3 - 1


async def test_a_refusal_under_either_secret_charges_neither(valkey_url: str) -> None:
    async with gateway(valkey_url, OLD) as old, gateway(valkey_url, NEW, OLD) as both, gateway(valkey_url, NEW) as new:
        await old.check("acme", "r", 5)
        assert not (await both.check("acme", "r", 3)).allowed
        assert [(await door.peek("acme", "r")).remaining for door in (old, both, new)] == [1, 1, 6]


async def test_a_reset_and_a_grant_reach_both(valkey_url: str) -> None:
    async with gateway(valkey_url, OLD) as old, gateway(valkey_url, NEW, OLD) as both, gateway(valkey_url, NEW) as new:
        await old.check("acme", "r", 6)
        await new.check("acme", "r", 6)
        await both.reset("acme", "r")
        assert [(await door.peek("acme", "r")).remaining for door in (old, both, new)] == [6, 6, 6]
        assert (await both.grant("acme", "r", 4, seconds=60)).remaining == 10
        assert [(await door.peek("acme", "r")).remaining for door in (old, both, new)] == [10, 10, 10]


def test_blocking_limiters_do_the_same(valkey_url: str) -> None:
    options: dict[str, Any] = {"deadline_ms": PATIENT_MS}
    with (
        Limiter(valkey_url, RULES, secret=OLD, **options) as old,
        Limiter(valkey_url, RULES, secret=NEW, previous_secret=OLD, **options) as both,
    ):
        found = [door.check("acme", "r").remaining for door in (old, both, old, both)]
        assert found == [5, 4, 3, 2]
        both.reset("acme", "r")
        assert old.peek("acme", "r").remaining == 6
