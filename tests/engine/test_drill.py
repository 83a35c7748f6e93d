"""A rehearsed outage concerns some clients, always the same ones, ends by itself, and is paid for like a real one."""

from __future__ import annotations

from typing import Any

import pytest

from limen import Limiter, Rule
from limen.errors import UsageError

pytestmark = pytest.mark.parametrize("lab", ["Valkey", "Limiter, Valkey"], indirect=True)

CLIENTS = [f"client-{number}" for number in range(400)]


async def degraded(door: Any) -> set[str]:
    return {client for client in CLIENTS if (await door.take(client=client)).degraded}


@pytest.fixture
def rule() -> Rule:
    return Rule("r", limit="600/minute")


async def test_it_concerns_the_same_share_of_clients_until_it_ends(lab: Any, rule: Rule) -> None:
    door = await lab.open(rule)
    assert await degraded(door) == set()
    door.limiter.drill(25, 60)
    assert door.limiter.drilling == 25
    first = await degraded(door)
    assert 60 < len(first) < 140
    lab.advance(30)
    assert await degraded(door) == first
    lab.advance(30)
    assert door.limiter.drilling == 0
    assert await degraded(door) == set()


async def test_another_gateway_rehearses_with_the_same_clients(lab: Any, rule: Rule) -> None:
    one, other = await lab.open(rule), await lab.open(rule)
    for door in (one, other):
        door.limiter.drill(10, 60)
    assert await degraded(one) == await degraded(other)


async def test_it_can_be_ended(lab: Any, rule: Rule) -> None:
    door = await lab.open(rule)
    door.limiter.drill(100, 3600)
    assert await degraded(door) == set(CLIENTS)
    door.limiter.drill(0, 0)
    assert await degraded(door) == set()


async def test_closed_rules_refuse_and_open_ones_have_their_share(lab: Any) -> None:
    door = await lab.open(Rule("open", limit="100/minute"), Rule("closed", limit="100/minute", on_failure="closed"))
    door.limiter.drill(100, 60)
    found = [await door.take(rule="open") for _ in range(11)]
    assert [each.allowed for each in found] == [True] * 10 + [False]
    assert {(each.source, each.degraded) for each in found} == {("local_share", True)}
    assert (await door.take(rule="closed")).status == 503


async def test_what_was_spent_in_it_is_charged_afterwards(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="100/minute"))
    door.limiter.drill(100, 60)
    for _ in range(10):
        assert (await door.take()).allowed
    door.limiter.drill(0, 0)
    assert (await door.take()).remaining == 89


@pytest.mark.parametrize(
    ("percent", "seconds", "message"),
    [(101, 1, "0 to 100 per cent"), (-1, 1, "0 to 100 per cent"), (float("nan"), 1, "per cent"), (1, 3601, "3600 s")],
)
async def test_numbers_that_make_no_sense_are_refused(
    lab: Any, rule: Rule, percent: float, seconds: float, message: str
) -> None:
    door = await lab.open(rule)
    with pytest.raises(UsageError, match=message):
        door.limiter.drill(percent, seconds)
    assert door.limiter.drilling == 0


async def test_a_store_in_this_process_is_never_away(lab: Any) -> None:
    with pytest.raises(UsageError, match="never away"):
        Limiter("memory://", [Rule("r", limit="1/minute")]).drill(10, 60)
