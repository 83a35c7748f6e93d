"""A server that is too slow for what is asked: it answers as much as it can, in time, and nobody waits for the rest."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from limen.core.in_flight import CEILING, FLOOR, InFlight
from limen.errors import StoreError
from tests.stores.valkey.virtual_loop import VirtualLoop, VirtualServer, connected

DEADLINE_S = 0.005
WARM_UP_S = 1.0


class Crowd:
    """Many who ask at random moments, so many a second, and do not wait for each other."""

    def __init__(self, service_s: float, quota: tuple[float, float] = (1.0, 1.0)) -> None:
        self.loop = VirtualLoop()
        self.server = VirtualServer(self.loop, service_s, quota)
        self.link = connected(self.loop, self.server, DEADLINE_S)
        self.found: Counter[str] = Counter()
        self.longest_s = 0.0
        self._random = Random(1)
        self._per_s = 0.0

    def ask(self, per_s: float, seconds: float) -> Counter[str]:
        """What comes of it, in so many seconds."""
        self.found = Counter()
        arrives = not self._per_s
        self._per_s = per_s
        if arrives:
            self._arrive()
        self.loop.run(seconds)
        return self.found

    def _arrive(self) -> None:
        asked_at = self.loop.now
        try:
            self.link.ask(b"?").add_done_callback(lambda future: self._answered(future, asked_at))
        except StoreError as error:
            self.found[error.kind] += 1
        self.loop.call_later(self._random.expovariate(self._per_s), self._arrive)

    def _answered(self, future: asyncio.Future[Any], asked_at: float) -> None:
        error = future.exception()
        self.found[error.kind if isinstance(error, StoreError) else "answered"] += 1
        self.longest_s = max(self.longest_s, self.loop.now - asked_at)


@pytest.mark.parametrize("times", [1.1, 1.5, 3, 10])
@pytest.mark.parametrize("can", [2_000, 5_000, 20_000])
def test_overloaded_it_answers_nine_tenths_of_what_it_can_and_the_rest_at_once(can: int, times: float) -> None:
    crowd = Crowd(1 / can)
    crowd.ask(times * can, WARM_UP_S)
    found = crowd.ask(times * can, 2)
    assert found["answered"] >= 0.9 * 2 * can
    assert found["timeout"] <= 0.05 * 2 * can
    assert found["overload"] > 0
    assert crowd.longest_s <= 1.25 * DEADLINE_S


@pytest.mark.parametrize("times", [1.1, 2, 5])
def test_with_a_fifth_of_the_processor_it_is_the_same(times: float) -> None:
    """It stands still for up to 80 ms, again and again."""
    can = 0.2 * 20_000
    crowd = Crowd(1 / 20_000, quota=(0.02, 0.1))
    crowd.ask(times * can, WARM_UP_S)
    assert crowd.ask(times * can, 3)["answered"] >= 0.9 * 3 * can


def test_what_was_too_much_leaves_nothing_behind() -> None:
    crowd = Crowd(1 / 5_000)
    crowd.ask(50_000, 2)
    crowd.ask(2_500, 0.2)
    found = crowd.ask(2_500, 2)
    assert found["answered"] >= 0.995 * found.total()


@pytest.mark.parametrize("pause_s", [0.003, 0.02, 0.2])
def test_after_a_pause_everything_is_as_before(pause_s: float) -> None:
    crowd = Crowd(1 / 50_000)
    before = crowd.ask(10_000, 1)
    assert set(before) == {"answered"}
    crowd.server.pause(pause_s)
    crowd.ask(10_000, pause_s + 0.02)
    after = crowd.ask(10_000, 1)
    assert after["answered"] >= 0.999 * after.total()


def test_a_server_that_is_fast_enough_is_asked_everything() -> None:
    crowd = Crowd(1 / 100_000)
    assert set(crowd.ask(90_000, 1)) == {"answered"}
    assert crowd.link.in_flight.most == CEILING


def test_the_bound_stays_within_its_own() -> None:
    random, bound = Random(7), InFlight()
    for _ in range(10_000):
        if random.random() < 0.3:
            bound.too_slow(random.randrange(0, 2 * CEILING), random.uniform(0.0025, 1), 0.0025)
        else:
            bound.answered(random.randrange(0, 5_000), quickly=random.random() < 0.5)
        assert FLOOR <= bound.most <= CEILING
    bound.too_slow(0, 1, 0.0025)
    assert bound.most == FLOOR
    bound.answered(16 * CEILING, quickly=False)
    assert bound.most == CEILING


def test_a_server_that_comes_back_is_not_asked_everything_at_once() -> None:
    bound = InFlight()
    bound.begin_gently()
    assert FLOOR <= bound.most < 100
