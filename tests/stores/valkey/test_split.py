"""A request over several slots is charged everywhere or nowhere: which parts there are, and what is given back."""

from __future__ import annotations

from fractions import Fraction

import pytest

from limen.core.limit import Limit
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.split import by_key, give_back, looking, merged, passed, spends, split

LIMIT = Limit(10, Fraction(1))
FULL, EMPTY = LIMIT.full_ticks, 0


def op(identity: str, **options: bool) -> Op:
    return Op(identity, "r", LIMIT, 1, **options)


def slot(op: Op) -> int:
    return ord(op.identity[0])


def test_operations_of_one_slot_stay_together_and_in_order() -> None:
    parts = split([op("a1"), op("b1"), op("a2"), op("c1"), op("b1")], slot)
    assert [(part.slot, part.at) for part in parts] == [(97, (0, 2)), (98, (1, 4)), (99, (3,))]
    assert [[each.identity for each in part.ops] for part in parts] == [["a1", "a2"], ["b1", "b1"], ["c1"]]


def test_what_was_found_goes_back_to_its_place() -> None:
    parts = split([op("a1"), op("b1"), op("a2")], slot)
    assert merged(parts, [(1, 3), (2,)], 3) == [1, 2, 3]


def test_a_part_is_cut_into_one_for_each_key() -> None:
    [part] = split([op("a1"), op("a2"), op("a1")], slot)
    pieces = by_key(part, lambda op: op.identity.encode())
    assert [(piece.slot, piece.at) for piece in pieces] == [(97, (0, 2)), (97, (1,))]


def test_only_enforced_operations_decide_whether_a_part_took() -> None:
    assert passed([op("a"), op("b", enforce=False)], [FULL, EMPTY])
    assert not passed([op("a"), op("b")], [FULL, EMPTY])
    assert passed([op("a", enforce=False)], [EMPTY])


@pytest.mark.parametrize(
    ("outcomes", "back"),
    [
        ([[FULL], [FULL], [FULL]], []),
        ([[FULL], [EMPTY], [FULL]], [0, 2]),
        ([[EMPTY], [EMPTY], [EMPTY]], []),
        ([[FULL], StoreError("late", "timeout"), [EMPTY]], [0, 1]),
        ([[FULL], StoreError("gone", "down"), [FULL]], [0, 1, 2]),
        ([[FULL], StoreError("no", "cluster_down"), [FULL]], [0, 2]),
        ([[EMPTY], StoreError("no", "read_only"), [EMPTY]], []),
    ],
)
def test_what_is_given_back(outcomes: list[object], back: list[int]) -> None:
    parts = split([op("a"), op("b"), op("c")], slot)
    assert give_back(parts, outcomes) == {at: [] for at in back}


def test_who_only_looks_spends_nothing() -> None:
    [part] = split([op("a")], slot)
    assert spends(part)
    assert not spends(looking(part))
    assert not spends(part._replace(ops=(op("a")._replace(cost=0),)))


TRIED = Op("b", "r@candidate", LIMIT, 1, enforce=False, beside="r")


@pytest.mark.parametrize(
    ("outcomes", "back"),
    [
        ([[FULL], [FULL, FULL], [FULL]], []),
        ([[FULL], [EMPTY, FULL], [FULL]], [0, 2]),
        ([[FULL], [EMPTY, FULL], [EMPTY]], [0, 1]),
        ([[FULL], [EMPTY, FULL], StoreError("late", "timeout")], [0, 1, 2]),
        ([[FULL], [EMPTY, FULL], StoreError("no", "cluster_down")], [0, 1]),
    ],
)
def test_what_was_taken_for_a_candidate_is_given_back_when_others_refuse(
    outcomes: list[object], back: list[int]
) -> None:
    """It is charged although the limit beside it refuses, but not when another one does."""
    parts = split([op("a")._replace(rule="s"), op("b"), TRIED, op("c")._replace(rule="t")], slot)
    assert give_back(parts, outcomes) == {at: [] for at in back}


BOTH = [FULL, FULL, FULL]
LIVE, OTHER, LIVE_AND_OTHER = [EMPTY, FULL, FULL], [FULL, FULL, EMPTY], [EMPTY, FULL, EMPTY]


@pytest.mark.parametrize(
    ("outcomes", "back"),
    [
        ([BOTH, BOTH], {}),
        ([LIVE, LIVE], {}),
        ([LIVE, BOTH], {1: [1]}),
        ([BOTH, LIVE], {0: [1]}),
        ([LIVE, OTHER], {0: []}),
        ([LIVE, LIVE_AND_OTHER], {0: []}),
        ([BOTH, LIVE_AND_OTHER], {0: []}),
        ([LIVE_AND_OTHER, LIVE_AND_OTHER], {}),
        ([LIVE, StoreError("late", "timeout")], {0: [], 1: []}),
    ],
)
def test_what_is_kept_of_buckets_that_lie_in_two_slots(outcomes: list[object], back: dict[int, list[int]]) -> None:
    """Under two secrets all three are in both: a candidate stays charged when its limit alone refused in either."""
    asked = [op("b"), TRIED, op("b")._replace(rule="s")]
    parts = split([*asked, *(each._replace(identity="a") for each in asked)], slot)
    kept = {at: [parts[at].ops[place] for place in places] for at, places in back.items()}
    assert give_back(parts, outcomes) == kept
