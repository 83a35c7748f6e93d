"""Public faults of limiters with expiry and memory, none of which is ours. Each test is named after its case."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from fractions import Fraction
from typing import Any

import pytest
import redis

from limen.core.concurrency import SlotLimit
from limen.core.limit import Limit
from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.rules.model import Rule
from limen.stores.base import Op, Slot
from limen.testing import ManualClock
from tests.conftest import buckets_in

Until = Callable[[Callable[[], object]], Awaitable[None]]
WINDOWS = ["fixed_window", "sliding_window", "sliding_log"]
valkey_only = pytest.mark.parametrize("lab", ["Valkey"], indirect=True)


@valkey_only
async def test_TT_01_a_connection_cut_at_any_moment_leaves_no_immortal_key(lab: Any, valkey_url: str) -> None:
    door = await lab.open("5/minute")
    port = int(valkey_url.rpartition(":")[2])
    clients = [f"client-{number}" for number in range(200)]
    for client in clients:
        plan = door.limiter._planned(client, "r0", 1)
        with socket.create_connection(("127.0.0.1", port)) as cut:
            cut.sendall(door.limiter._store._commands.take(plan.ops))
    assert all(lab.redis.pttl(key) > 0 for key in lab.stored())
    assert {(await door.take(client=client)).remaining for client in clients} <= {3, 4}
    lab.advance(60)
    assert {(await door.take(client=client)).remaining for client in clients} == {4}


@valkey_only
async def test_TT_01_a_key_without_expiry_is_healed_by_the_next_call(lab: Any) -> None:
    door = await lab.open("2/minute")
    for ask in (door.take, door.peek, door.take, door.take):
        await door.take()
        lab.redis.persist(lab.stored()[0])
        door.limiter._denied.clear()
        await ask()
        assert 0 < lab.redis.pttl(lab.stored()[0]) <= 120_000


async def test_TT_02_a_key_that_expires_between_any_two_calls(valkey_url: str) -> None:
    """Four clients ask as fast as they can while the key is made to expire all the time."""
    rule, lost = Rule("r", limit="1000000/hour"), 0
    async with AsyncExitStack() as stack:
        opened = [AsyncLimiter(valkey_url, [rule], deadline_ms=20_000) for _ in range(4)]
        limiters = [await stack.enter_async_context(limiter) for limiter in opened]
        store = stack.enter_context(redis.Redis.from_url(valkey_url.replace("valkey", "redis")))
        for at in range(1000):
            found = await asyncio.gather(*(limiter.check("acme", "r") for limiter in limiters))
            assert all(each.source == "store" for each in found)
            (key,) = buckets_in(store)
            assert store.pttl(key) > 0
            lost += max(each.remaining for each in found) == 999_999
            store.pexpire(key, 1)
            while at % 50 == 0 and store.exists(key):
                await asyncio.sleep(0)
    assert lost >= 20


@valkey_only
@pytest.mark.parametrize("period", ["1s", "1 minute", "1 hour", "1 day"])
async def test_TT_04_expiry_is_in_the_right_unit(lab: Any, period: str) -> None:
    door = await lab.open(f"10 per {period}")
    await door.take(10)
    full_ms = (await door.peek()).reset_after_ms
    assert full_ms <= lab.redis.pttl(lab.stored()[0]) <= full_ms + 60_000


@valkey_only
async def test_TT_05_every_path_leaves_keys_that_expire(lab: Any) -> None:
    door = await lab.open(Rule("a", limit="2/minute"), Rule("b", capacity=5, refill_per_sec=0))
    steps = [
        lambda: door.take(3),
        door.peek,
        door.take,
        door.peek,
        door.take,
        door.take,
        lambda: door.take(3),
        lambda: door.take(rule="b"),
        lambda: door.take(6, rule="b"),
        lambda: door.reset("acme", "a"),
        lambda: door.take(0),
    ]
    for step in steps:
        await step()
        assert all(lab.redis.pttl(key) > 0 for key in lab.stored())
    await door.reset("acme")
    assert lab.stored() == []


@valkey_only
@pytest.mark.parametrize("algorithm", WINDOWS)
async def test_TT_05_every_path_of_every_algorithm_leaves_keys_that_expire(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="2/minute"))
    steps = [
        door.peek,
        lambda: door.take(3),
        door.take,
        door.take,
        door.take,
        door.peek,
        lambda: door.grant(5, seconds=200),
        lambda: door.take(2),
        lambda: door.reset("acme", "r"),
        lambda: door.grant(5, seconds=200),
        lambda: door.take(0),
    ]
    for step in steps:
        await step()
        assert all(0 < lab.redis.pttl(key) <= 260_000 for key in lab.stored())
    await door.reset("acme")
    assert lab.stored() == []


@valkey_only
async def test_TT_05_slots_and_what_can_be_given_back_expire(lab: Any) -> None:
    door = await lab.open("2/minute")
    store, slot = door.limiter._store, Slot("client=acme", "s", SlotLimit(2, 5_000_000), "holder")
    steps = [store.acquire, store.acquire, store.renew, store.release, store.release, store.renew]
    for step in steps:
        await step(slot)
        assert all(0 < lab.redis.pttl(key) <= 11_000 for key in lab.stored())
    assert lab.stored() == []
    await store._ask(b"", store._commands.take([Op("client=acme", "r0", Limit(2, Fraction(1)), 1)], bytes(16)))
    assert sorted(lab.redis.pttl(key) > 0 for key in lab.stored()) == [True, True]


@valkey_only
@pytest.mark.parametrize("algorithm", WINDOWS)
async def test_TT_07_a_window_lives_until_it_says_nothing(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="10 per 10s"))
    await door.take(10)
    lasts_ms = (await door.peek()).reset_after_ms
    assert lasts_ms >= 10_000
    assert lasts_ms <= lab.redis.pttl(lab.stored()[0]) <= lasts_ms + 31_000
    lab.at(1.1)
    refused = await door.take()
    assert (refused.allowed, refused.retry_after_ms >= 8_900) == (False, True)


@valkey_only
@pytest.mark.parametrize("algorithm", WINDOWS)
@pytest.mark.parametrize(
    "garbage", [b"", b"abc", b"nan0005", b"+5:nan;", b"+9:99999999999999999;x", b"1:2", bytes(12), b"\xff" * 8]
)
async def test_TT_14_a_window_that_nobody_understands_is_a_new_one(lab: Any, algorithm: str, garbage: bytes) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="5/minute"))
    await door.take(3)
    (key,) = lab.stored()
    (field,) = lab.redis.hkeys(key)
    lab.redis.hset(key, field, garbage)
    decision = await door.take()
    assert (decision.source, decision.allowed) == ("store", True)
    assert lab.redis.pttl(key) > 0


@valkey_only
async def test_TT_07_a_bucket_lives_until_it_is_full(lab: Any) -> None:
    door = await lab.bucket(10, 1)
    for _ in range(10):
        await door.take()
    assert lab.redis.pttl(lab.stored()[0]) >= 10_000
    lab.at(1.1)
    assert (await door.take()).allowed
    assert (await door.take()).retry_after_ms == 900


@valkey_only
async def test_TT_08_no_moment_of_a_second_makes_an_expiry_that_the_store_refuses(lab: Any) -> None:
    door = await lab.bucket(5, 5)
    moments = sorted([step / 1000 for step in range(2000)] + [0.9995, 0.9999, 1.0, 1.9995])
    found = []
    for second in moments:
        lab.at(second)
        found.append(await door.take())
    assert {each.source for each in found} == {"store", "deny_cache"}
    assert sum(each.allowed for each in found) <= 15
    assert lab.redis.pttl(lab.stored()[0]) >= 1


@valkey_only
async def test_TT_11_nothing_is_left_of_clients_that_are_gone(lab: Any, until: Until) -> None:
    door = await lab.bucket(1, 1000)
    await asyncio.gather(*(door.take(client=f"client-{number}") for number in range(5000)))
    assert len(lab.stored()) == 5000
    await until(lambda: not lab.stored())


def test_TT_13_the_map_of_a_process_is_bounded_and_a_flood_frees_nobody() -> None:
    clock = ManualClock()
    with Limiter(rules=[Rule("r", limit="5/minute")], clock=clock, max_buckets=10_000) as limiter:
        threads = threading.active_count()
        blocked = [f"blocked-{number}" for number in range(50)]
        for client in blocked:
            limiter.check(client, "r", 5)
        for number in range(100_000):
            limiter.check(f"{number}", "r")
            if not number % 1000:
                assert len(limiter.store) <= 10_000
        assert not any(limiter.check(client, "r").allowed for client in blocked)
        assert threading.active_count() == threads
        clock.advance(120)
        for number in range(5001):
            limiter.check("again", "r")
            limiter.check(f"new-{number}", "r")
        assert len(limiter.store) <= 5002
        clock.advance(120)
        limiter.store.sweep()
        assert len(limiter.store) == 0


def test_TT_13_what_a_gateway_knows_of_refusals_is_bounded_and_ends() -> None:
    limiter = AsyncLimiter("valkey://localhost:1", [Rule("r", limit="1/minute")], clock=ManualClock())
    denied = limiter._denied
    denied._max_entries = 1000
    for number in range(10_000):
        (op,) = limiter._planned(f"{number}", "r", 1).ops
        denied.remember(op, 0, number)
        assert len(denied) <= 1000
    asked = ((op.identity, op.rule), op.limit, 1)
    assert denied.seen(*asked, 10_000) is not None
    assert denied.seen(*asked, 1_010_000) is None
    for number in range(600):
        denied.remember(limiter._planned(f"later-{number}", "r", 1).ops[0], 0, 2_000_000)
    assert len(denied) == 600, "what has run out goes by and by"


GARBAGE = [
    b"abc", b"", b"nan", b"-1", b"1e300", b"12:34", b"1:2:3:4", b"9" * 400, b"\x00\xff", b"0:" + b"9" * 30 + b":0",
    b"5 nan", b"nan0005", b"123-001", b"-inf0005", b" inf", b"0x100005", b"-1:1:1",
]  # fmt: skip


@valkey_only
@pytest.mark.parametrize("garbage", GARBAGE)
async def test_TT_14_a_field_that_nobody_understands_is_a_new_bucket_or_a_bounded_one(lab: Any, garbage: bytes) -> None:
    door = await lab.open("5/minute", "7/minute")
    for _ in range(3):
        await door.take()
    await door.take(rule="r1")
    (key,) = lab.stored()
    field = next(name for name, value in lab.redis.hgetall(key).items() if value.endswith(b"0002"))
    lab.redis.hset(key, field, garbage)
    decision = await door.take()
    assert decision.source == "store"
    assert decision.remaining in range(5)
    assert (await door.take(rule="r1")).remaining == 5
    lab.advance(60)
    assert (await door.take()).remaining == 4


@valkey_only
@pytest.mark.parametrize("kind", ["missing field", "missing key", "text", "list", "set"])
async def test_TT_14_state_that_is_gone_or_of_another_type_is_rebuilt(lab: Any, kind: str) -> None:
    door = await lab.open("5/minute", "7/minute")
    for _ in range(3):
        await door.take()
    (key,) = lab.stored()
    if kind == "missing field":
        lab.redis.hdel(key, *lab.redis.hkeys(key))
    else:
        lab.redis.delete(key)
    if kind == "text":
        lab.redis.set(key, "abc")
    elif kind == "list":
        lab.redis.rpush(key, "abc")
    elif kind == "set":
        lab.redis.sadd(key, "abc")
    found = [await door.take(), await door.take()]
    assert [(each.source, each.remaining) for each in found] == [("store", 4), ("store", 3)]
    assert lab.redis.pttl(key) > 0
