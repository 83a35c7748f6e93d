"""Leases: fewer questions to the store, the same promise. Real Valkey, under time that the test moves."""

from __future__ import annotations

import asyncio
import inspect
import os
from contextlib import AsyncExitStack
from typing import Any

import pytest

from limen import AsyncLimiter, Limiter, Rule
from limen.core.lease import BETA
from limen.engine.clock import SystemClock
from limen.engine.leases import HOT
from limen.errors import StoreError
from limen.rules.request import Request
from limen.stores.base import Borrow, Lent
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from limen.testing import IntervalChecker, ManualClock
from tests.stores.valkey.sync_lab import in_threads

pytestmark = pytest.mark.usefixtures("clean_keys")
shared = pytest.mark.parametrize("lab", ["Valkey", "Limiter, Valkey"], indirect=True)
BIG = "20000/minute"
C = 20_000


def lending(limit: str = BIG, **options: Any) -> Rule:
    return Rule("r", limit=limit, **{"lease": "auto", **options})


async def idle(door: Any) -> None:
    """Until nobody asks the store about a lease any more."""
    async with asyncio.timeout(20):
        while tasks := list(getattr(getattr(door.limiter, "_borrowing", None), "_tasks", ())):
            await asyncio.gather(*tasks, return_exceptions=True)


async def ask(lab: Any, door: Any, times: int, every_s: float = 0.001, **question: Any) -> list[str]:
    """Where so many answers came from; `denied` for refusals."""
    sources = []
    for _ in range(times):
        found = await door.take(**question)
        sources.append(found.source if found.allowed else "denied")
        await idle(door)
        lab.advance(every_s)
    return sources


async def settled(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


async def left(door: Any) -> int:
    """Whole tokens in the bucket, as the store says."""
    return int((await door.peek()).remaining)


@shared
async def test_who_asks_often_is_answered_from_a_lease(lab: Any) -> None:
    door = await lab.open(lending())
    assert await ask(lab, door, 100) == ["store"] * HOT + ["lease"] * (100 - HOT)


@shared
async def test_who_asks_seldom_is_not(lab: Any) -> None:
    door = await lab.open(lending())
    assert await ask(lab, door, 50, every_s=0.06) == ["store"] * 50


@shared
async def test_one_store_call_for_twenty_requests_at_most(lab: Any) -> None:
    """A hot client on a fleet of four."""
    door = await lab.open(lending(), gateways=4)
    await ask(lab, door, 50)
    before = lab.store_calls()
    sources = await ask(lab, door, 1000)
    assert sources == ["lease"] * 1000
    assert lab.store_calls() - before <= 1000 / 20


@shared
async def test_four_gateways_admit_no_more_than_the_envelope_and_what_is_on_loan(lab: Any) -> None:
    """One client that asks for three times its limit, everywhere at once."""
    rule = lending("600/second burst 2000")
    doors = [await lab.open(rule, gateways=4) for _ in range(4)]
    checker, leased = IntervalChecker(rule), 0
    for _ in range(2000):
        for door in doors:
            now_us = lab.clock.now_us()
            found = await door.take()
            leased += found.source == "lease"
            if found.allowed:
                checker.admitted("acme", 1, now_us, now_us)
            await idle(door)
        lab.advance(0.0022)
    checker.check(bound_tokens=int(BETA * 2000))
    assert leased > 500, "it was tried"


@shared
async def test_a_client_that_was_refused_gives_back_and_gets_everything_it_may_have(lab: Any) -> None:
    rule = lending("2000/day")
    one, two = await lab.open(rule), await lab.open(rule)
    counts = [0, 0]
    counts[0] += (await ask(lab, one, 200, every_s=0)).count("lease") + HOT
    sources = await ask(lab, two, 1500, every_s=0)
    assert "denied" not in sources
    counts[1] += len(sources)
    for _ in range(3):  # whoever holds a lease gives it back when it is refused, and then it is there
        for at, door in enumerate((two, one)):
            sources = await ask(lab, door, 400, every_s=0)
            counts[at] += len(sources) - sources.count("denied")
    assert sum(counts) == 2000


@shared
async def test_a_refused_client_borrows_nothing_until_it_is_allowed_often_again(lab: Any) -> None:
    door = await lab.open(lending("100/second burst 1000"))
    assert "denied" in await ask(lab, door, 1100, every_s=0)
    assert not door.limiter.leases.held
    lab.advance(0.05)
    assert await ask(lab, door, 6, every_s=0) == ["store"] * 5 + ["denied"]
    lab.advance(10)
    assert (await ask(lab, door, HOT + 1, every_s=0))[-1] == "lease"


@shared
@pytest.mark.parametrize("asleep_s", [1, 10, 60, 3600])
async def test_a_lease_that_has_run_out_is_not_spent(lab: Any, asleep_s: int) -> None:
    """However long the process slept."""
    awake, asleep = await lab.open(lending()), await lab.open(lending())
    for door in (awake, asleep):
        await ask(lab, door, HOT + 1, every_s=0)
    lab.advance(0.999999)
    assert (await awake.take()).source == "lease"
    lab.advance(asleep_s - 0.999999)
    assert (await asleep.take()).source == "store"
    assert [door.limiter.leases.spent for door in (awake, asleep)] == [2, 1]


@shared
async def test_what_is_not_used_comes_back(lab: Any) -> None:
    """Whatever ends a lease: the bucket holds all that was not admitted."""
    door, other = await lab.open(lending("2000/day")), await lab.open(lending("2000/day"))
    admitted = 0

    async def hold() -> None:
        nonlocal admitted
        admitted += len(await ask(lab, door, HOT + 5, every_s=0))
        assert door.limiter.leases.held
        assert await left(other) < 2000 - admitted

    await hold()
    door.use(lending("2001/day"))
    await idle(door)
    assert await left(other) == 2000 - admitted, "other rules"
    door.use(lending("2000/day"))
    await hold()
    door.use(lending("2000/day"))
    assert door.limiter.leases.held, "the same rules again take nothing away"
    await door.take(2000)
    await idle(door)
    assert await left(other) == 2000 - admitted, "a refusal"
    lab.advance(1)
    await hold()
    lab.advance(0.9)
    await door.take(client="somebody else")
    await idle(door)
    assert await left(other) == 2000 - admitted, "its client asks no more"
    await hold()
    await settled(door.limiter.close())
    assert await left(other) == 2000 - admitted, "the end"


@shared
async def test_a_reset_makes_a_full_bucket_and_no_more(lab: Any) -> None:
    door = await lab.open(lending("2000/day"))
    await ask(lab, door, HOT + 5, every_s=0)
    await door.reset("acme", "r")
    await idle(door)
    assert not door.limiter.leases.held
    assert await left(door) == 2000


@shared
async def test_what_is_left_is_told_as_if_there_were_no_leases(lab: Any) -> None:
    """To a client that asks one gateway only."""
    door = await lab.open(lending("2000/day"))
    for spent in range(1, 1000):
        found = await door.take()
        await idle(door)
        assert (found.allowed, found.remaining, found.retry_after_ms) == (True, 2000 - spent, 0)
    assert found.source == "lease"


@shared
async def test_only_what_costs_something_and_fits_is_answered_from_a_lease(lab: Any) -> None:
    door = await lab.open(lending("2000/day"))
    await ask(lab, door, HOT + 1, every_s=0)
    held = door.limiter.leases.held["client=acme", "r"].left
    assert [(await door.take(cost)).source for cost in (0, held + 1, held)] == ["store", "store", "lease"]
    assert (await door.peek()).source == "store"
    assert door.limiter.leases.held["client=acme", "r"].left >= 0


@shared
async def test_every_rule_that_applies_must_have_lent(lab: Any) -> None:
    rules = [
        Rule("a", match={"path": "/**"}, limit=BIG, lease="auto"),
        Rule("b", match={"path": "/both"}, limit="30000/minute", key_by=["plan"], lease="auto"),
        Rule("c", match={"path": "/some"}, limit="30000/minute", key_by=["ip"]),
        Rule("d", match={"path": "/shadow"}, limit="30000/minute", mode="shadow", lease="auto"),
    ]
    door = await lab.open(*rules)
    sources = {}
    for path in ("/some", "/shadow", "/both", "/one"):
        found = []
        for _ in range(2 * HOT):
            found.append((await door.request(Request(path=path, client="acme", plan="gold", ip="192.0.2.7"))).source)
            await idle(door)
        sources[path] = found[-1]
        lab.advance(5)
    assert sources == {"/some": "store", "/shadow": "store", "/both": "lease", "/one": "lease"}


@shared
async def test_a_request_takes_from_all_leases_or_from_none(lab: Any) -> None:
    rules = [
        Rule("a", match={"path": "/**"}, limit="2000/day", lease="auto"),
        Rule("b", match={"path": "/**"}, limit="3000/day", key_by=["plan"], lease="auto"),
    ]
    door = await lab.open(*rules)
    request = Request(path="/", client="acme", plan="gold")
    for spent in range(1, 200):
        found = await door.request(request)
        await idle(door)
        assert (found.allowed, found.rule, found.remaining) == (True, "a", 2000 - spent)
    assert found.source == "lease"
    await settled(door.limiter.close())
    fresh = await lab.open(*rules)
    assert [
        (await fresh.peek(client=client, rule=rule)).remaining for client, rule in (("acme", "a"), ("gold", "b"))
    ] == [
        2000 - 199,
        3000 - 199,
    ]


@shared
async def test_nobody_borrows_for_a_client_that_is_not_known(lab: Any) -> None:
    door = await lab.open(Rule("r", match={"path": "/**"}, limit=BIG, lease="auto"))
    for _ in range(5 * HOT):
        assert (await door.request(Request(path="/", ip="192.0.2.7"))).source == "store"


@shared
async def test_small_limits_lend_nothing(lab: Any) -> None:
    """C < 2·G/β: there is not enough for every gateway to have two."""
    door = await lab.open(lending("266/second"), gateways=4)
    assert await ask(lab, door, 100) == ["store"] * 100
    door = await lab.open(lending("268/second"), gateways=4)
    assert "lease" in await ask(lab, door, 100)


@shared
async def test_a_lease_of_a_named_size_has_that_size(lab: Any) -> None:
    door = await lab.open(lending("1000/minute", lease={"size": 50, "ttl": "2s"}))
    await ask(lab, door, 200, every_s=0.01)
    assert door.limiter.leases.borrowed > 100
    held = []
    for _ in range(100):
        await ask(lab, door, 1, every_s=0.01)
        held += [lease.left for lease in door.limiter.leases.held.values()]
    assert max(held) == 50


@shared
async def test_a_rehearsed_outage_reaches_clients_that_hold_a_lease(lab: Any) -> None:
    door = await lab.open(lending())
    await ask(lab, door, HOT + 1, every_s=0)
    door.limiter.drill(100, 60)
    assert (await door.take()).source == "local_share"


class Lender(AsyncMemoryStore):
    """A store of somebody's own that lends, and fails when told to."""

    state = "up"

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.broken = False
        self.hold: asyncio.Event | None = None
        self.asked = 0

    async def borrow(self, borrow: Borrow) -> Lent:
        self.asked += 1
        if self.hold is not None:
            await self.hold.wait()
        if self.broken:
            raise StoreError("away", "timeout")
        return await super().borrow(borrow)


class Own:
    """A limiter over such a store."""

    def __init__(self, rule: Rule) -> None:
        self.clock = ManualClock()
        self.store = Lender(MemoryStore(self.clock.now_us))
        self.limiter = AsyncLimiter(self.store, [rule], clock=self.clock)

    async def take(self, **question: Any) -> Any:
        return await self.limiter.check("acme", "r", **question)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)


async def test_a_store_that_does_not_lend_changes_no_answer() -> None:
    own = Own(lending())
    own.store.broken = True
    assert await ask(own, own, 100) == ["store"] * 100
    assert own.store.asked == 1, "and it is left alone for a while"


async def test_a_lease_is_good_for_its_time_while_the_store_is_away() -> None:
    own = Own(lending("6000/minute"))
    await ask(own, own, 100, every_s=0.005)
    own.store.broken = True
    sources = await ask(own, own, 400, every_s=0.005)
    assert sources[:10] == ["lease"] * 10
    assert sources[200:] == ["store"] * 200, "then it runs out"


async def test_what_arrives_after_a_refusal_is_given_back() -> None:
    own = Own(lending("2000/day"))
    own.store.hold = asyncio.Event()
    for _ in range(HOT):
        await own.take()
    await asyncio.sleep(0)
    assert own.store.asked == 1
    await own.take(cost=2000)
    own.store.hold.set()
    await idle(own)
    assert own.store.asked == 2
    assert (await own.limiter.peek("acme", "r")).remaining == 2000 - HOT


async def test_nobody_waits_for_a_lease() -> None:
    own = Own(lending())
    own.store.hold = asyncio.Event()
    for _ in range(100):
        assert (await own.take()).source == "store"
        await asyncio.sleep(0)
    assert own.store.asked == 1
    own.store.hold.set()
    await idle(own)
    assert (await own.take()).source == "lease"


async def test_what_a_server_may_have_forgotten_is_not_spent() -> None:
    own = Own(lending())
    await ask(own, own, HOT + 1, every_s=0)
    own.limiter._store_returned(lambda identity, colocate: identity == "client=other")
    assert (await own.take()).source == "lease"
    own.limiter._store_returned(lambda identity, colocate: identity == "client=acme")
    assert (await own.take()).source == "store"


async def test_memory_lends_nothing() -> None:
    async with AsyncLimiter(rules=[lending()]) as limiter:
        assert {(await limiter.check("acme", "r")).source for _ in range(100)} == {"memory"}


async def test_a_client_that_goes_away_leaves_nothing_behind(valkey_url: str, until: Any) -> None:
    """In real time, and though nobody else asks anything."""
    async with AsyncLimiter(valkey_url, [lending("2000/day")], deadline_ms=20_000) as limiter:
        for _ in range(HOT):
            await limiter.check("acme", "r")
        await until(lambda: limiter.leases.borrowed)
        assert limiter.leases.held
        await until(lambda: limiter.leases.returned == limiter.leases.borrowed)
        assert not limiter.leases.held
        assert (await limiter.peek("acme", "r")).remaining == 2000 - HOT


def test_threads_never_spend_more_than_was_lent(valkey_url: str) -> None:
    with Limiter(valkey_url, [lending("3000/day", lease={"size": 100})], deadline_ms=20_000) as limiter:
        allowed = [0] * 8

        def work(number: int) -> None:
            for _ in range(500):
                allowed[number] += limiter.check("acme", "r").allowed

        in_threads(8, work)
        assert limiter.leases.spent > 500, "it was tried"
        assert sum(allowed) + sum(limiter.check("acme", "r").allowed for _ in range(50)) == 3000


def test_a_child_spends_nothing_of_what_its_parent_holds(valkey_url: str) -> None:
    with Limiter(valkey_url, [lending("2000/day")], deadline_ms=20_000) as limiter:
        for _ in range(HOT + 1):
            assert limiter.check("acme", "r").allowed
        assert limiter.leases.held
        child = os.fork()
        if not child:
            is_empty = not limiter.leases.held
            first = limiter.check("acme", "r")
            os._exit(0 if is_empty and first.source == "store" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert limiter.check("acme", "r").source == "lease"


async def test_gateways_under_load_keep_within_what_may_be_on_loan(valkey_url: str) -> None:
    """In real time: four gateways, each with eight callers that never rest, until the client has spent all and more."""
    rule = lending("500/second burst 2000")
    checker = IntervalChecker(rule)

    async def call(limiter: AsyncLimiter, times: int) -> None:
        for _ in range(times):
            invoked_us = SystemClock.now_us()
            found = await limiter.check("acme", "r")
            if found.allowed:
                checker.admitted("acme", 1, invoked_us, SystemClock.now_us())
            await asyncio.sleep(0)

    async with AsyncExitStack() as stack:
        limiters = [
            await stack.enter_async_context(AsyncLimiter(valkey_url, [rule], gateways=4, deadline_ms=20_000))
            for _ in range(4)
        ]
        await asyncio.gather(*(call(limiter, 200) for limiter in limiters for _ in range(8)))
        assert sum(limiter.leases.spent for limiter in limiters) > 500, "it was tried"
    checker.check(bound_tokens=int(BETA * 2000))


async def test_a_crowd_that_went_away_is_given_back_bit_by_bit() -> None:
    own = Own(lending("2000/day"))
    for client in range(50):
        for _ in range(HOT):
            await own.limiter.check(f"c{client}", "r")
        await idle(own)
    assert len(own.limiter.leases) == 50
    own.advance(0.9)
    for _ in range(HOT - 1):
        before = own.store.asked
        await own.limiter.check("somebody else", "r")
        await idle(own)
        assert own.store.asked - before <= 8
    assert len(own.limiter.leases) == 0
    assert own.limiter.leases.returned == own.limiter.leases.borrowed


async def test_what_the_store_knows_nothing_of_is_not_spent() -> None:
    own = Own(lending())
    await ask(own, own, HOT + 1, every_s=0)
    own.store.local._loans.clear()
    before = own.limiter.leases.borrowed
    own.advance(0.8)
    assert (await own.take()).source == "lease"
    await idle(own)
    assert own.limiter.leases.left == own.limiter.leases.borrowed - before


async def test_a_store_that_forgot_is_told_what_it_had_lent() -> None:
    own = Own(lending("2000/day"))
    await ask(own, own, HOT + 5, every_s=0)
    borrowed = own.limiter.leases.borrowed
    own.store.local.reset("client=acme", None)
    own.limiter._store_returned(lambda identity, colocate: True)
    found = await own.take()
    assert (found.source, found.remaining) == ("store", 2000 - HOT - borrowed - 1)
