"""Live counts against a prediction: when a change is taken back, and when it is not."""

import random

import pytest

from limen.admin.watching import Tally, newly_denied, tolerated

QUIET = Tally(10_000, 100, 200)


def too_much(since: Tally, predicted: float = 0.0, before: Tally = QUIET, denied_before: float = 0.0) -> bool:
    seen = newly_denied(before, since, denied_before)
    return seen is not None and seen.at_least > tolerated(predicted, percent=1)


def test_a_change_may_do_a_point_more_than_predicted_or_half_as_much_again() -> None:
    assert [tolerated(predicted, 1) for predicted in (0, 0.02, 0.2)] == pytest.approx([0.01, 0.03, 0.3])
    assert tolerated(0, percent=5) == pytest.approx(0.05)


def test_it_is_the_growth_that_counts_not_what_was_denied_before_too() -> None:
    seen = newly_denied(Tally(1000, 300, 300), Tally(1000, 350, 350), 0.0)
    assert seen is not None
    assert seen.ratio == pytest.approx(0.05)
    assert seen.at_least < seen.ratio


def test_a_handful_of_requests_says_nothing() -> None:
    assert newly_denied(QUIET, Tally(99, 99, 99), 0.0) is None
    assert too_much(Tally(100, 100, 100))


def test_the_more_was_counted_the_smaller_a_harm_is_seen() -> None:
    assert not too_much(Tally(300, 15, 15))
    assert too_much(Tally(30_000, 1500, 1500))


def test_what_was_predicted_is_no_reason() -> None:
    assert too_much(Tally(2000, 900, 900), predicted=0.0)
    assert not too_much(Tally(2000, 900, 900), predicted=0.4)


def test_what_other_rules_deny_is_not_the_changes_doing() -> None:
    attacked = Tally(10_000, 100, 6000)
    assert not too_much(attacked), "another rule keeps somebody away"
    moved = Tally(10_000, 3000, 3000)
    assert not too_much(moved, before=Tally(10_000, 0, 3000)), "what another rule denied, this one denies now"


def test_where_nobody_counted_before_the_prediction_says_what_was_denied_before() -> None:
    nobody = Tally(0, 0, 0)
    assert too_much(Tally(5000, 1500, 1500), before=nobody)
    assert not too_much(Tally(5000, 1500, 1500), before=nobody, denied_before=0.3)


def test_chance_takes_nothing_back() -> None:
    """A change that does exactly what it was predicted to do, in bursts of four, seen every few seconds."""
    dice = random.Random(7)
    taken_back = 0
    for _ in range(300):
        requests = denied = 0
        for _ in range(100):
            requests += 40
            denied += 4 * sum(dice.random() < 0.05 for _ in range(10))
            before = Tally(4000, 0, 0)
            taken_back += too_much(Tally(requests, denied, denied), predicted=0.04, before=before)
    assert taken_back == 0


def test_real_harm_is_seen_soon() -> None:
    dice = random.Random(8)
    for _ in range(100):
        requests = denied = 0
        while not too_much(Tally(requests, denied, denied)):
            requests += 40
            denied += 4 * sum(dice.random() < 0.3 for _ in range(10))
            assert requests < 1000
