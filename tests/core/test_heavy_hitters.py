"""Who comes often is found, in bounded memory, whatever else comes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from limen.core.heavy_hitters import HeavyHitters

WINDOW_US = 500_000

keys = st.lists(st.integers(0, 40), max_size=400)


@given(keys, st.integers(1, 20))
def test_nobody_is_said_to_have_come_more_often_than_it_did(stream: list[int], places: int) -> None:
    hitters, truth = HeavyHitters[int](places, WINDOW_US), Counter[int]()
    for key in stream:
        truth[key] += 1
        assert 1 <= hitters.add(key, 0) <= truth[key]
        assert len(hitters) <= places


@given(keys, st.integers(1, 20))
def test_no_count_is_too_low_by_more_than_its_part_of_the_stream(stream: list[int], places: int) -> None:
    hitters, truth = HeavyHitters[int](places, WINDOW_US), Counter[int]()
    for number, key in enumerate(stream, 1):
        truth[key] += 1
        missing = truth[key] - hitters.add(key, 0)
        assert missing <= number / places


@given(keys)
def test_with_room_for_all_every_count_is_exact(stream: list[int]) -> None:
    hitters, truth = HeavyHitters[int](41, WINDOW_US), Counter[int]()
    for key in stream:
        truth[key] += 1
        assert hitters.add(key, 0) == truth[key]


@given(st.lists(st.tuples(st.integers(0, 10), st.booleans()), max_size=300), st.integers(1, 8))
def test_who_is_dropped_is_counted_from_nothing(stream: list[tuple[int, bool]], places: int) -> None:
    hitters, truth = HeavyHitters[int](places, WINDOW_US), Counter[int]()
    for key, dropped in stream:
        if dropped:
            hitters.drop(key)
            truth[key] = 0
        else:
            truth[key] += 1
            assert 1 <= hitters.add(key, 0) <= truth[key]


def test_a_flood_of_new_keys_does_not_hide_one_that_comes_often() -> None:
    hitters = HeavyHitters[str](100, WINDOW_US)
    for number in range(10_000):
        hitters.add(f"flood {number}", 0)
        if number % 20 == 0:
            found = hitters.add("hot", 0)
    assert found >= 500 - 10_000 / 100
    assert len(hitters) == 100


def test_counts_are_of_one_window() -> None:
    hitters = HeavyHitters[str](10, WINDOW_US)
    assert [hitters.add("a", at_us) for at_us in (0, 1, WINDOW_US - 1)] == [1, 2, 3]
    assert hitters.add("a", WINDOW_US) == 1
    assert hitters.began_us == WINDOW_US
    assert hitters.add("a", 2 * WINDOW_US - 1) == 2


def test_a_clock_that_steps_back_begins_a_window() -> None:
    hitters = HeavyHitters[str](10, WINDOW_US)
    hitters.add("a", WINDOW_US)
    assert hitters.add("a", 0) == 1
