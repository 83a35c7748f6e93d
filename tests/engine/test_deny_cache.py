"""A bound that those who pass lower: of a crowd that waits for one token one asks for it."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import pytest

from limen import AsyncLimiter, Rule
from limen.core.limit import Limit
from limen.engine.deny_cache import DenyCache
from limen.rules.request import Request
from limen.stores.base import Op
from limen.testing import ManualClock

MINUTE = Limit(10, Fraction(1, 6))
KEY = ("client=acme", "r")


def op(cost: int = 1, limit: Limit = MINUTE) -> Op:
    return Op(*KEY, limit, cost)


def refuses(cache: DenyCache, now_us: int, cost: int = 1) -> bool:
    """One request: refused here, or on its way to the store."""
    if cache.seen(KEY, MINUTE, cost, now_us) is not None:
        return True
    cache.asks(KEY, MINUTE, cost, now_us)
    return False


def test_one_asks_when_a_token_has_grown() -> None:
    limit = Limit(10, Fraction(10))
    cache = DenyCache()
    cache.remember(op(limit=limit), 0, 0)
    asked = []
    for now_us in range(0, 1_000_000, 1000):
        if cache.seen(KEY, limit, 1, now_us) is None:
            cache.asks(KEY, limit, 1, now_us)
            asked.append(now_us)
    assert asked == [100_000 * n for n in range(1, 10)]


def test_one_asks_when_what_is_known_is_a_second_old() -> None:
    cache = DenyCache()
    cache.remember(op(), 0, 0)
    passed = [now_us for now_us in range(0, 1_100_000, 500) if not refuses(cache, now_us)]
    assert passed == [1_000_000 + DenyCache.HOLD_US * n for n in range(5)], "while no answer comes"


def test_the_answer_to_it_is_good_for_another_second() -> None:
    cache = DenyCache()
    cache.remember(op(), 0, 0)
    assert not refuses(cache, 1_000_000)
    cache.remember(op(), 100, 1_000_000)
    assert all(refuses(cache, now_us) for now_us in range(1_000_100, 1_999_000, 500))


def test_a_small_cost_passes_where_a_large_one_was_refused_until_nothing_is_left() -> None:
    cache = DenyCache()
    cache.remember(op(5), 3 * MINUTE.token_ticks, 0)
    assert [refuses(cache, now_us, 1) for now_us in range(5)] == [False] * 3 + [True] * 2
    assert refuses(cache, 10, 5)


def test_whoever_is_allowed_and_leaves_enough_is_forgotten() -> None:
    cache = DenyCache()
    cache.remember(op(), 0, 0)
    cache.spent(op(), 5 * MINUTE.token_ticks, 10)
    assert not cache.entries
    cache.remember(op(), 0, 0)
    cache.spent(op(), MINUTE.token_ticks // 2, 10)
    assert refuses(cache, 20)


def test_who_is_refused_again_and_again_stays_when_a_flood_comes() -> None:
    cache = DenyCache(max_entries=100)
    cache.remember(op(), 0, 0)
    for number in range(2000):
        cache.remember(Op(f"client={number}", "r", MINUTE, 1), 0, number)
        assert refuses(cache, number), "the attacker is not freed by its own flood"
    assert len(cache) == 100


@pytest.mark.parametrize("step", range(5))
def test_a_bound_is_never_below_what_others_may_find(step: int) -> None:
    """Nobody else spends: whoever is refused here would be refused there."""
    limit = Limit(5, Fraction(7))
    cache, level, at_us = DenyCache(), Fraction(0), 0
    cache.remember(op(limit=limit), 0, 0)
    for now_us in range(0, 3_000_000, 1000 + step * 777):
        level = min(Fraction(5), level + Fraction(7 * (now_us - at_us), 1_000_000))
        at_us = now_us
        if cache.seen(KEY, limit, 1, now_us) is not None:
            assert level < 1
            continue
        cache.asks(KEY, limit, 1, now_us)
        if level >= 1:
            level -= 1
            cache.spent(op(limit=limit), int(level * limit.token_ticks), now_us)
        else:
            cache.remember(op(limit=limit), int(level * limit.token_ticks), now_us)


async def test_a_crowd_costs_the_store_one_question_for_each_token(lab: Any) -> None:
    if lab.redis is None:
        pytest.skip("a store in this process is asked by nobody else")
    door = await lab.open("60/minute")
    for _ in range(60):
        await door.take()
    assert not (await door.take()).allowed
    before = lab.store_calls()
    allowed = 0
    for _ in range(20):
        lab.advance(0.5)
        found = await asyncio.gather(*(door.take() for _ in range(200)))
        allowed += sum(each.allowed for each in found)
    assert allowed == 10
    assert lab.store_calls() - before <= 10 + 10 + 10, "tokens, looks after a second, heartbeats"


async def test_one_rule_that_refuses_takes_nothing_from_what_is_known_of_another(lab: Any) -> None:
    door = await lab.open(
        Rule("mine", match={"path": "/**"}, limit="2/minute"),
        Rule("all", match={"path": "/**"}, limit="3/minute", key_by=[]),
    )
    answers = [(await door.request(Request(client="acme"))).allowed for _ in range(4)]
    assert answers == [True, True, False, False]
    assert (await door.request(Request(client="other"))).allowed
    assert not (await door.request(Request(client="third"))).allowed
    lab.advance(20)
    assert (await door.request(Request(client="third"))).allowed


async def test_a_look_passes_for_nobody() -> None:
    clock = ManualClock()
    async with AsyncLimiter("memory://", [Rule("r", limit="60/minute")], clock=clock) as limiter:
        limiter._denied.remember(limiter._planned("acme", "r", 1).ops[0], 0, clock.now_us())
        clock.advance(1)
        for _ in range(3):
            await limiter.peek("acme", "r")
        assert limiter._denied.entries["client=acme", "r"].seen == 0
