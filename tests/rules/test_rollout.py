"""A rollout covers the same keys everywhere and every time, and only gets more of them as it grows."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen import Rule
from limen.rules.key import identity_of_client

CLIENTS = [identity_of_client(f"client-{number}", ("client",)) for number in range(5000)]


def covered(percent: int, rule: str = "search") -> set[str]:
    found = Rule(rule, limit="5/minute", rollout=percent)
    return {client for client in CLIENTS if found.covers_key(client)}


def test_who_was_covered_stays_covered_as_it_grows() -> None:
    steps = [covered(percent) for percent in (0, 1, 10, 20, 50, 99, 100)]
    assert all(fewer <= more for fewer, more in pairwise(steps))
    assert (len(steps[0]), len(steps[-1])) == (0, len(CLIENTS))


@pytest.mark.parametrize("percent", [1, 10, 20, 50, 90])
def test_it_covers_as_many_as_it_says(percent: int) -> None:
    assert abs(len(covered(percent)) / len(CLIENTS) - percent / 100) < 0.015


def test_every_rule_has_another_tenth() -> None:
    tenths = [covered(10, rule) for rule in ("search", "upload", "r1", "r2")]
    for one, other in combinations(tenths, 2):
        assert len(one & other) < len(one) / 4


def test_it_is_the_same_in_every_process() -> None:
    """Worked out once and written down: nobody may be thrown out of a rollout by an update."""
    tenth = covered(10)
    assert [number for number, client in enumerate(CLIENTS[:60]) if client in tenth] == [1, 2, 18, 20, 21, 36]


@given(st.text(), st.integers(0, 100), st.integers(0, 100))
def test_growing_never_lets_anybody_out(name: str, one: int, other: int) -> None:
    fewer, more = sorted((one, other))
    key = identity_of_client(name, ("client",))
    if Rule("r", limit="5/minute", rollout=fewer).covers_key(key):
        assert Rule("r", limit="5/minute", rollout=more).covers_key(key)
