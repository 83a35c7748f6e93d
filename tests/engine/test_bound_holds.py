"""The published bound holds in a fleet of real limiters: N of them, a store that they lose and find again, one client.

Time is virtual, and chance has a seed: what fails fails again. What no number bounds (`Bound.besides`) is allowed for
by how far apart the gateways return: for so long N − 1 of them are cut off.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

from limen.engine.limiter import Limiter
from limen.errors import StoreError
from limen.rules.bound import bound_of
from limen.rules.model import Rule
from limen.stores.base import Charge, Op
from limen.stores.memory import MemoryStore
from limen.testing import ManualClock

US = 1_000_000
ROUNDING = 2
"""Tokens: requests are whole, and the envelope is not."""


class Link:
    """What one gateway sees of the store that all share."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.away = False

    @property
    def state(self) -> str:
        return "down" if self.away else "up"

    def start(self) -> None:
        """There is nothing to connect to."""

    def close(self) -> None:
        """Others use it."""

    def take(self, ops: Sequence[Op]) -> Any:
        return self._there().take(ops)

    def charge(self, charge: Charge) -> Any:
        return self._there().charge(charge)

    def atomic(self, ops: Sequence[Op]) -> bool:
        return True

    def _there(self) -> MemoryStore:
        if self.away:
            raise StoreError("nobody answers", "down", "store:1")
        return self.store


class Scene(NamedTuple):
    """What happens."""

    capacity: int
    refill_per_sec: Fraction
    gateways: int
    outage_s: float
    skew_s: float
    """By how much the last gateway returns later than the first."""


class Fleet:
    """The gateways, and what they admitted to one client: at which microsecond."""

    def __init__(self, scene: Scene, chance: random.Random) -> None:
        self.scene = scene
        self.chance = chance
        self.clock = ManualClock(start=0)
        self.rule = Rule("r", capacity=scene.capacity, refill_per_sec=scene.refill_per_sec)
        store = MemoryStore(self.clock.now_us)
        self.links: list[Any] = [Link(store) for _ in range(scene.gateways)]
        self.limiters = [Limiter(link, [self.rule], clock=self.clock, gateways=scene.gateways) for link in self.links]
        self.lost_s = chance.uniform(0.5, 3)
        self.back_s = self.lost_s + scene.outage_s
        self._found_s = [self.back_s + chance.uniform(0, scene.skew_s) for _ in self.links]
        self.admitted: list[int] = []

    def ask(self, at_s: float, times: int = 1) -> None:
        """The client asks gateways at random."""
        self.clock.set(at_s)
        for link, found_s in zip(self.links, self._found_s, strict=True):
            link.away = self.lost_s <= at_s < found_s
        for _ in range(times):
            if self.chance.choice(self.limiters).check("acme", "r").allowed:
                self.admitted.append(self.clock.now_us())

    @property
    def overshoot(self) -> Fraction:
        """Tokens beyond the envelope, in the worst interval."""
        per_us = self.scene.refill_per_sec / US
        worst, lowest = Fraction(0), Fraction(10**18)
        for before, at_us in enumerate(self.admitted):
            lowest = min(lowest, before - per_us * at_us)
            worst = max(worst, before + 1 - per_us * at_us - lowest - self.scene.capacity)
        return worst

    def allowed_for(self, saved_up: Fraction = Fraction(0)) -> Fraction:
        """Tokens that are promised to be the most, and what part of the capacity is allowed for because shares were
        saved up and spent at once while the gateways return."""
        bound = bound_of(self.rule, self.scene.gateways)
        assert bound is not None
        cut_off = Fraction(self.scene.gateways - 1, self.scene.gateways)
        apart = self.scene.refill_per_sec * Fraction(self.scene.skew_s) * cut_off
        return bound.tokens + bound.untold + apart + saved_up * self.scene.capacity + ROUNDING


def steady(fleet: Fleet) -> Iterator[tuple[float, int]]:
    """As fast as it can, all the time."""
    at_s = 0.0
    while at_s < fleet.back_s + 3:
        at_s += 0.01
        yield at_s, 2


def bursts(fleet: Fleet) -> Iterator[tuple[float, int]]:
    """Now and then, much at once."""
    at_s = 0.0
    while at_s < fleet.back_s + 3:
        at_s += fleet.chance.expovariate(4)
        yield at_s, fleet.chance.randint(1, 2 * fleet.scene.capacity)


def late(fleet: Fleet) -> Iterator[tuple[float, int]]:
    """Little, until the store is nearly there again."""
    at_s = 0.0
    while at_s < fleet.back_s + 3:
        at_s += 0.01 if at_s > fleet.back_s - fleet.scene.outage_s / 5 else 0.2
        yield at_s, 2


def scenes(chance: random.Random) -> Scene:
    return Scene(
        chance.choice([10, 20, 40, 100]),
        Fraction(chance.choice([1, 2, 10, 20, 100]), chance.choice([1, 10])),
        chance.choice([2, 4, 8]),
        chance.choice([0.2, 1, 3, 10]),
        chance.choice([0, 0.1, 0.3]),
    )


Demand = Callable[[Fleet], Iterator[tuple[float, int]]]


def told(demand: Demand, seed: int, change: Callable[[Fleet], None] = lambda fleet: None) -> Fleet:
    """A fleet, after what happened to it."""
    chance = random.Random(seed)
    fleet = Fleet(scenes(chance), chance)
    change(fleet)
    for at_s, times in demand(fleet):
        fleet.ask(at_s, times)
    return fleet


@pytest.mark.parametrize(
    ("demand", "saved_up"), [(steady, Fraction(0)), (bursts, Fraction(5, 100)), (late, Fraction(0))]
)
def test_the_bound_holds_whatever_happens(demand: Demand, saved_up: Fraction) -> None:
    for seed in range(60):
        fleet = told(demand, seed)
        assert fleet.overshoot <= fleet.allowed_for(saved_up), (seed, fleet.scene)


def never_settle(fleet: Fleet) -> None:
    for limiter in fleet.limiters:
        limiter._can_settle = False


def count_too_few(fleet: Fleet) -> None:
    for limiter in fleet.limiters:
        limiter.fleet.floor = 1


@pytest.mark.parametrize("mistake", [never_settle, count_too_few])
def test_what_the_bound_stands_on_is_missed_when_it_is_left_out(mistake: Callable[[Fleet], None]) -> None:
    found = [told(demand, seed, mistake) for demand in (steady, bursts) for seed in range(20)]
    assert any(fleet.overshoot > fleet.allowed_for() for fleet in found)


class Flaky(Link):
    """It loses some answers, and some questions, all the time."""

    misses, chance = 0.0, random.Random(0)

    def take(self, ops: Sequence[Op]) -> Any:
        return self._perhaps(lambda: self.store.take(ops))

    def charge(self, charge: Charge) -> Any:
        return self._perhaps(lambda: self.store.charge(charge))

    def _perhaps(self, ask: Callable[[], Any]) -> Any:
        if self.chance.random() >= self.misses:
            return ask()
        if self.chance.random() < 0.5:
            ask()
        raise StoreError("no answer in time", "timeout", "store:1")


@pytest.mark.parametrize("misses", [0.001, 0.01, 0.1])
def test_what_is_missed_now_and_then_adds_no_more_than_an_outage(misses: float) -> None:
    for seed in range(4):
        fleet = Fleet(Scene(100, Fraction(20), 4, 0.0, 0.0), random.Random(seed))
        for link in fleet.links:
            link.__class__ = type("Flaky", (Flaky,), {"misses": misses, "chance": random.Random(seed)})
        for tick in range(2000):
            fleet.ask(tick / 100, 2)
        assert fleet.overshoot <= fleet.allowed_for(), seed
        assert len(fleet.admitted) > 375, "nor is anybody locked out"
