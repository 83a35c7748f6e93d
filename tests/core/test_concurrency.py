"""Who holds a slot, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.core.concurrency import Held, SlotLimit, SlotsSeen, acquire, release, renew
from limen.errors import UsageError

LEASE = 2_000_000


def test_so_many_at_a_time() -> None:
    limit = SlotLimit(2, LEASE)
    held: Held = {}
    found = []
    for name in "abc":
        seen, held = acquire(held, limit, name, 0)
        found.append((seen.held, seen.allows(limit)))
    assert found == [(0, True), (1, True), (2, False)]
    assert sorted(held) == ["a", "b"]


def test_a_slot_lapses_on_its_own_and_says_when() -> None:
    limit = SlotLimit(1, LEASE)
    _, held = acquire({}, limit, "a", 0)
    seen, held = acquire(held, limit, "b", 500_000)
    assert seen == SlotsSeen(1, 1_500_000)
    seen, held = acquire(held, limit, "b", LEASE)
    assert seen.allows(limit)
    assert list(held) == ["b"]


def test_who_acquires_twice_holds_one() -> None:
    limit = SlotLimit(2, LEASE)
    _, held = acquire({}, limit, "a", 0)
    seen, held = acquire(held, limit, "a", 10)
    assert (seen.held, dict(held)) == (0, {"a": LEASE + 10})


def test_a_renewed_slot_is_held_for_longer_and_a_lapsed_one_is_lost() -> None:
    limit = SlotLimit(1, LEASE)
    _, held = acquire({}, limit, "a", 0)
    renewed, held = renew(held, limit, "a", LEASE - 1)
    assert (renewed, held["a"]) == (True, 2 * LEASE - 1)
    renewed, held = renew(held, limit, "a", 2 * LEASE - 1)
    assert not renewed


def test_nobody_releases_what_another_holds() -> None:
    limit = SlotLimit(1, LEASE)
    _, held = acquire({}, limit, "a", 0)
    _, held = acquire(held, limit, "b", LEASE)
    released, held = release(held, "a", LEASE)
    assert (released, list(held)) == (False, ["b"])
    released, held = release(held, "b", LEASE)
    assert (released, list(held)) == (True, [])
    released, held = release(held, "b", LEASE)
    assert not released


def test_a_clock_that_steps_back_holds_nobody_longer_than_a_lease() -> None:
    limit = SlotLimit(1, LEASE)
    _, held = acquire({}, limit, "a", 3_600_000_000)
    seen, _ = acquire(held, limit, "b", 0)
    assert seen == SlotsSeen(1, LEASE)


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from("ar"), st.sampled_from("abcdef"), st.integers(0, LEASE))))
def test_never_more_than_the_limit(slots: int, story: list[tuple[str, str, int]]) -> None:
    limit = SlotLimit(slots, LEASE)
    held: Held = {}
    now_us = 0
    for action, name, pause_us in story:
        now_us += pause_us
        held = acquire(held, limit, name, now_us)[1] if action == "a" else release(held, name, now_us)[1]
        assert sum(until > now_us for until in held.values()) <= slots


@pytest.mark.parametrize("numbers", [(0, LEASE), (100_001, LEASE), (1, 99_999), (1, 86_400_000_001)])
def test_numbers_out_of_range_are_refused(numbers: tuple[int, int]) -> None:
    with pytest.raises(UsageError):
        SlotLimit(*numbers)
