"""A gateway's part of a limit while the store is away: together the parts are the limit, and nothing is rounded up."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from limen.core.decision import Decision
from limen.core.limit import Limit
from limen.engine.aio import AsyncLimiter
from limen.engine.fleet import Fleet
from limen.engine.local_shares import LocalShares
from limen.errors import UsageError
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.stores.base import Op
from limen.testing import ManualClock

NOWHERE = "valkey://localhost:1"


def fleet(rule: Rule, clock: ManualClock, gateways: int = 4) -> list[AsyncLimiter]:
    """Limiters that have not met their store."""
    return [AsyncLimiter(NOWHERE, [rule], clock=clock, gateways=gateways) for _ in range(gateways)]


async def admitted(limiters: list[AsyncLimiter], cost: int = 1, times: int = 1) -> int:
    found = [await limiter.check("acme", "r", cost) for _ in range(times) for limiter in limiters]
    return cost * sum(each.allowed for each in found)


@pytest.mark.parametrize(
    ("capacity", "rate"),
    [(100, Fraction(5, 3)), (10, Fraction(1, 6)), (1000, Fraction(0)), (7, Fraction(10, 13)), (1, Fraction(1, 3))],
)
@pytest.mark.parametrize("seed", range(2))
async def test_gateways_together_admit_a_tenth_and_then_the_rate(capacity: int, rate: Fraction, seed: int) -> None:
    random, clock = Random(seed), ManualClock()
    limiters = fleet(Rule("r", capacity=capacity, refill_per_sec=rate), clock)
    began_us, total = clock.now_us(), 0
    for _ in range(300):
        total += await admitted([random.choice(limiters)], random.choice([1, 1, 1, 2]), random.randrange(1, 4))
        clock.advance(random.choice([0, 0.001, 0.3, 2, 12]))
        assert total <= Fraction(capacity, 10) + rate * Fraction(clock.now_us() - began_us, 1_000_000)


async def test_a_part_below_one_token_is_saved_up_for() -> None:
    clock = ManualClock()
    limiters = fleet(Rule("r", limit="4/minute"), clock, gateways=8)
    assert await admitted(limiters) == 0
    clock.advance(113.9)
    assert await admitted(limiters) == 0
    clock.advance(0.1)
    assert await admitted(limiters, times=2) == 8


async def test_a_cost_beyond_the_part_is_saved_up_for_too() -> None:
    clock = ManualClock()
    (limiter, *_) = fleet(Rule("r", limit="100/second"), clock)
    refused = await limiter.check("acme", "r", 60)
    assert (refused.allowed, refused.reason, refused.retry_after_ms) == (False, "over_limit", 2300)
    clock.advance(2.3)
    assert (await limiter.check("acme", "r", 60)).allowed
    never = await limiter.check("acme", "r", 101)
    assert (never.allowed, never.reason, never.retry_after_ms) == (False, "exceeds_capacity", None)


async def test_silence_within_an_outage_gives_nothing_away() -> None:
    clock = ManualClock()
    limiters = fleet(Rule("r", limit="100/day"), clock)
    total = 0
    for _ in range(50):
        total += await admitted(limiters, times=5)
        clock.advance(10.1)
    assert total <= 10 + 505 * 100 / 86_400


async def test_a_new_outage_begins_with_a_tenth_again_and_not_with_what_was_saved() -> None:
    clock = ManualClock()
    limiters = fleet(Rule("r", limit="100/minute"), clock)
    assert await admitted(limiters, times=30) == 8
    clock.advance(3600)
    for limiter in limiters:
        limiter._shares.answered_us = clock.now_us()
    assert await admitted(limiters, times=30) == 8


async def test_a_store_that_comes_and_goes_gives_nothing_away() -> None:
    clock = ManualClock()
    limiters = fleet(Rule("r", limit="100/minute"), clock)
    total = 0
    for _ in range(100):
        total += await admitted(limiters, times=5)
        clock.advance(0.1)
        for limiter in limiters:
            limiter._shares.answered_us = clock.now_us()
    assert total <= 10 + 10 * 100 / 60


async def test_a_quota_that_never_refills_is_not_given_out_again_in_the_next_outage() -> None:
    clock = ManualClock()
    limiters = fleet(Rule("r", capacity=1000, refill_per_sec=0), clock)
    assert await admitted(limiters, times=300) == 100
    clock.advance(86_400)
    for limiter in limiters:
        limiter._shares.answered_us = clock.now_us()
    assert await admitted(limiters, times=300) == 0


async def test_a_steady_client_within_its_limit_is_served_through_an_outage() -> None:
    clock = ManualClock()
    limiters = fleet(Rule("r", limit="600/minute"), clock)
    served = 0
    for step in range(600):
        served += await admitted([limiters[step % 4]])
        clock.advance(0.1)
    assert served >= 590


async def test_what_a_client_is_told_is_the_whole_limit_and_that_it_is_degraded() -> None:
    (limiter, *_) = fleet(Rule("r", limit="100/minute"), ManualClock())
    decision = await limiter.check("acme", "r")
    assert decision == Decision(
        True, 100, 1, 0, 56_400, "r", "allowed", "local_share", True, (), limiter.ruleset.rules[0].policy
    )


async def test_looking_spends_nothing_of_a_share() -> None:
    (limiter, *_) = fleet(Rule("r", limit="100/minute"), ManualClock())
    assert [(await limiter.peek("acme", "r")).remaining for _ in range(5)] == [2] * 5
    assert [(await limiter.check("acme", "r", 0)).remaining for _ in range(5)] == [2] * 5


async def test_shares_of_many_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalShares, "MAX_BUCKETS", 500)
    (limiter, *_) = fleet(Rule("r", limit="100/minute"), ManualClock())
    for number in range(2000):
        await limiter.check(f"client-{number}", "r")
    assert len(limiter._shares._store) <= 500


@pytest.mark.parametrize("gateways", [0, -1, 1.5, True, "4", None])
def test_the_number_of_gateways_is_a_whole_number_from_1(gateways: object) -> None:
    with pytest.raises(UsageError, match="gateways must be a whole number from 1"):
        AsyncLimiter(NOWHERE, gateways=gateways)  # type: ignore[arg-type]


async def test_a_look_changes_nothing_of_what_was_saved_up() -> None:
    clock = ManualClock()
    limiter = AsyncLimiter(NOWHERE, [Rule("r", limit="100/minute")], clock=clock, gateways=4)
    assert (await limiter.check("acme", "r")).remaining == 1
    clock.advance(6)
    request = Request(client="acme")
    before = (await limiter.peek("acme", "r")).remaining
    for _ in range(3):
        await limiter.explain(request)
    assert (await limiter.peek("acme", "r")).remaining == before == 4


async def test_a_second_of_settling_is_the_same_outage() -> None:
    """Nothing that was saved up in it is lost, for no server has failed anew."""
    clock = ManualClock()
    shares = LocalShares(clock.now_us, Fleet(4, clock.now_us))
    (part,) = shares.parts([Op("client=acme", "r", Limit(100, Fraction(5, 3)), 1)])
    shares.take([part], clock.now_us(), "store:1")
    clock.advance(6)
    (saved_up,) = shares.take([part._replace(cost=0)], clock.now_us(), "store:1")
    assert shares.take([part._replace(cost=0)], clock.now_us(), None) == [saved_up]
    assert saved_up == part.limit.token_ticks * 4
