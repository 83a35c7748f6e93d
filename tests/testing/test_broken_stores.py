"""A store with a mistake is told which promise it breaks, and what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from limen.stores.memory import MemoryStore
from limen.testing import STORE_PROMISES, store_conformance
from tests.testing.broken_carrying import StopsCandidates
from tests.testing.broken_counting import Floats, OneAfterTheOther
from tests.testing.broken_crowds import IsDown, RaisesItsOwn
from tests.testing.broken_keeping import AnybodyLetsGo
from tests.testing.broken_lending import LendsAll
from tests.testing.broken_settling import ChargesAgain
from tests.testing.mistakes import BREAKS, make


def verdict(store: type, *promises: str) -> str:
    with pytest.raises(AssertionError) as caught:
        store_conformance(lambda clock: make(store, clock), *([promises] if promises else []))
    return str(caught.value)


@pytest.mark.parametrize("store", BREAKS)
def test_a_mistake_is_found(store: type) -> None:
    assert f"\n- {BREAKS[store]}\n" in verdict(store)


def test_all_that_is_broken_is_told_with_what_was_seen() -> None:
    told = verdict(AnybodyLetsGo)
    broken = [line.removeprefix("- ") for line in told.splitlines() if line.startswith("- ")]
    assert told.startswith(f"{len(broken)} of {len(STORE_PROMISES)} promises broken:\n")
    assert len(broken) > 1
    assert set(broken) < set(STORE_PROMISES)
    promise = "when one is refused nothing is taken, whoever the others belong to"
    assert verdict(OneAfterTheOther, promise) == (
        f"1 of 1 promises broken:\n- {promise}\n    left after it, token_bucket: [5, 4, 5] instead of [5, 6, 7]"
    )


def test_what_was_lent_too_much_is_told() -> None:
    assert "lent where 5 are there: 5 instead of 2" in verdict(LendsAll, "at most half of what is there is lent")


def test_what_was_charged_twice_is_told() -> None:
    promise = "what is charged is taken once for each name, and each time it is told how much that was"
    assert "left of 10 after it, token_bucket: [4] instead of [7]" in verdict(ChargesAgain, promise)


class WithoutExtras:
    """A store of somebody who wants neither leases nor settlement."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in ("borrow", "charge"):
            raise AttributeError(name)
        return getattr(self._store, name)


@pytest.mark.parametrize(
    "promise", [each for each in STORE_PROMISES if any(word in each for word in ("lent", "lease", "charge"))]
)
def test_a_store_that_leaves_something_out_breaks_no_promise_about_it(promise: str) -> None:
    assert store_conformance(lambda clock: WithoutExtras(MemoryStore(clock.now_us)), [promise]) == []


def test_how_a_candidate_was_charged_is_told() -> None:
    promise = "a candidate is taken as if it stood in the place of the limit that it is beside"
    assert "of which the limit refused two: [0, 3, 7] instead of [0, 1, 7]" in verdict(StopsCandidates, promise)


def test_what_is_no_answer_is_told() -> None:
    assert "what is seen under a token_bucket is whole numbers, not 10.0" in verdict(Floats)


def test_an_error_of_the_wrong_kind_is_told() -> None:
    assert "reset raised KeyError(" in verdict(RaisesItsOwn)
    assert "the only error of a store is a StoreError" in verdict(RaisesItsOwn)


def test_a_store_that_does_not_answer_cannot_be_tried() -> None:
    assert "could not be tried, because take raised StoreError: nobody answers" in verdict(IsDown)
