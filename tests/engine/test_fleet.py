"""N rises at once and falls late, and is never below what the operator says."""

from __future__ import annotations

import pytest

from limen import AsyncLimiter, Limiter, Rule
from limen.engine.fleet import Fleet
from limen.errors import UsageError
from limen.stores.base import Op
from limen.stores.memory_aio import AsyncMemoryStore
from limen.testing import ManualClock


def test_it_rises_at_once_and_falls_ten_minutes_later() -> None:
    clock = ManualClock()
    fleet = Fleet(1, clock.now_us)
    fleet.heard(50)
    assert fleet.size == 50
    fleet.heard(100)
    assert fleet.size == 100
    for _ in range(59):
        clock.advance(10)
        fleet.heard(50)
        assert fleet.size == 100
    clock.advance(20)
    fleet.heard(50)
    assert fleet.size == 50


def test_it_is_never_below_the_floor() -> None:
    clock = ManualClock()
    fleet = Fleet(8, clock.now_us)
    assert fleet.size == 8
    fleet.heard(3)
    assert fleet.size == 8
    fleet.heard(9)
    clock.advance(3600)
    assert fleet.size == 8


def test_what_another_source_remembers_counts_for_as_long_as_it_says_so() -> None:
    clock = ManualClock()
    fleet = Fleet(1, clock.now_us)
    fleet.heard(2, 40, "database")
    fleet.heard(2, 2, "store")
    assert fleet.size == 40
    fleet.heard(2, 2, "database")
    assert fleet.size == 2


@pytest.mark.parametrize("floor", [0, -1, 1.5, True, "4"])
def test_a_floor_is_a_whole_number_from_one(floor: object) -> None:
    with pytest.raises(UsageError, match="gateways must be a whole number from 1"):
        Fleet(floor, ManualClock().now_us)  # type: ignore[arg-type]


async def test_a_larger_fleet_gives_each_gateway_less_at_once() -> None:
    clock = ManualClock()
    limiter = AsyncLimiter("valkey://localhost:1", [Rule("r", limit="1000/minute")], clock=clock, gateways=10)
    for _ in range(10):
        assert (await limiter.check("acme", "r")).allowed
    assert not (await limiter.check("acme", "r")).allowed
    clock.advance(6)
    limiter.fleet.heard(100)
    assert (await limiter.check("acme", "r")).remaining == 0, "all of that time counts at the new rate"
    clock.advance(6)
    assert [(await limiter.check("acme", "r")).allowed for _ in range(2)] == [True, False]


class Counting(AsyncMemoryStore):
    """Another store in which gateways count themselves."""

    state = "up"  # type: ignore[assignment]

    def __init__(self, clock: ManualClock) -> None:
        from limen.stores.memory import MemoryStore

        super().__init__(MemoryStore(clock.now_us))
        self.heard: list[str] = []
        self.left: list[str] = []

    async def beat(self, gateway: str) -> tuple[int, int]:
        self.heard.append(gateway)
        return 7, 9

    async def leave(self, gateway: str) -> None:
        self.left.append(gateway)


async def test_a_limiter_counts_itself_and_says_goodbye(until, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("limen.engine.tending.BEAT_S", 0.01)
    store = Counting(ManualClock())
    async with AsyncLimiter(store, [Rule("r", limit="10/minute")]) as limiter:
        await until(lambda: len(store.heard) > 2)
        assert limiter.fleet.size == 9
    assert len(set(store.heard)) == 1
    assert store.left == store.heard[:1]


def test_a_limiter_that_blocks_counts_itself_with_its_calls(valkey_url: str) -> None:
    clock = ManualClock()
    with (
        Limiter(valkey_url, [Rule("r", limit="10/minute")], clock=clock, deadline_ms=1000) as one,
        Limiter(valkey_url, [Rule("r", limit="10/minute")], clock=clock, deadline_ms=1000) as other,
    ):
        one.check("acme", "r")
        assert one.fleet.size == 1
        clock.advance(3)
        for limiter in (one, other, one):
            limiter.check("acme", "r")
            clock.advance(3)
        assert one.fleet.size == 2


def test_an_op_of_a_fleet_of_one_is_the_whole_limit() -> None:
    """The part of one gateway is everything, but for the start."""
    clock = ManualClock()
    from limen.engine.local_shares import LocalShares

    rule = Rule("r", limit="100/minute")
    assert rule.limit is not None
    (part,) = LocalShares(clock.now_us, Fleet(1, clock.now_us)).parts([Op("client=acme", "r", rule.limit, 1)])  # type: ignore[arg-type]
    assert (part.limit.capacity, part.limit.start_ticks * 10) == (100, part.limit.full_ticks)  # type: ignore[union-attr]
