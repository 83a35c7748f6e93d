"""A breaker opens after a run of misses or a loss, and closes when a probe was answered in time."""

from __future__ import annotations

import pytest

from limen.core.breaker import Breaker


@pytest.fixture
def closed() -> Breaker:
    breaker = Breaker(misses_to_open=3)
    breaker.answered()
    return breaker


def test_a_node_is_not_asked_before_it_has_answered_once() -> None:
    assert Breaker(misses_to_open=3).is_open


def test_a_run_of_misses_opens_it_and_a_shorter_one_does_not(closed: Breaker) -> None:
    closed.missed(2)
    assert not closed.is_open
    closed.missed(3)
    assert closed.is_open


def test_a_lost_connection_opens_it_at_once(closed: Breaker) -> None:
    closed.lost()
    assert closed.is_open


def test_one_answer_in_time_closes_it(closed: Breaker) -> None:
    closed.lost()
    closed.answered()
    assert not closed.is_open
