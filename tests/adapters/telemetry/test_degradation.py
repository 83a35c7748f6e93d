"""The log says when rules and shards are decided without the store, once, and when they are not any more."""

from __future__ import annotations

import pytest

from limen.adapters.telemetry.degradation import Degradation

UP, DOWN = {"a:1": "up", "b:1": "up"}, {"a:1": "up", "b:1": "down"}


class Told:
    """A degradation whose clock is driven, and the lines that it wrote since the last time somebody asked."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now_s = 1000.0
        self.seen = Degradation(lambda: self.now_s)
        self._caplog = caplog

    def look(self, shards: dict[str, str] = UP, after_s: float = 1.0, drilling: bool = False) -> list[str]:
        self.now_s += after_s
        self.seen.look(shards, drilling)
        lines = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return lines


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


def test_one_line_when_it_begins_and_one_with_its_length_and_number_when_it_is_over(told: Told) -> None:
    for _ in range(3):
        told.seen.without_store("search", refused=False)
    assert told.look(DOWN) == ["decided without the store now: rule search"]
    told.seen.without_store("search", refused=True)
    assert told.look(DOWN, after_s=4) == []
    told.seen.with_store("search")
    assert told.look(UP) == [
        "decided with the store again: rule search, after 6.0 s; 4 decisions were made without it, 1 of them 503",
        "b:1 decides again after 5.0 s; 0 questions were not asked or answered",
    ]
    assert told.seen.rules == {}


def test_while_one_shard_is_away_the_exact_decisions_of_the_others_end_nothing(told: Told) -> None:
    for _ in range(20):
        told.seen.without_store("search", refused=False)
        told.seen.with_store("search")
        told.look(DOWN)
        assert "search" in told.seen.rules
    assert told.look(DOWN, after_s=10) == [
        "decided with the store again: rule search, after 30.0 s; 20 decisions were made without it, 0 of them 503"
    ]


def test_in_a_drill_too(told: Told) -> None:
    told.seen.without_store("search", refused=False)
    told.seen.with_store("search")
    assert told.look(UP, drilling=True) == ["decided without the store now: rule search"]
    assert "search" in told.seen.rules
    assert told.look(UP)[0].startswith("decided with the store again")


def test_a_rule_that_nobody_asks_for_any_more_is_not_degraded_for_ever(told: Told) -> None:
    told.seen.without_store("search", refused=False)
    told.look(UP)
    assert "search" in told.seen.rules
    told.look(UP, after_s=10)
    assert told.seen.rules == {}


def test_a_rule_that_comes_and_goes_writes_two_lines_a_minute_at_most(told: Told) -> None:
    lines = []
    for _ in range(59):
        told.seen.without_store("search", refused=False)
        lines += told.look(DOWN, after_s=0.5)
        told.seen.with_store("search")
        lines += told.look(UP, after_s=0.5)
    assert len([line for line in lines if "search" in line]) == 2
    assert len([line for line in lines if "b:1" in line]) == 1
    told.seen.without_store("search", refused=False)
    assert told.look(DOWN, after_s=2) == ["decided without the store now: rule search"]


def test_many_rules_share_a_line(told: Told) -> None:
    for number in range(1000):
        told.seen.without_store(f"rule-{number}", refused=False)
    (line,) = told.look(DOWN)
    assert line == "decided without the store now: rules rule-0, rule-1, rule-2, rule-3, rule-4 and 995 more"
    told.seen.with_store("rule-0")
    (line, _) = told.look(UP, after_s=11)
    assert "and 995 more, after 12.0 s; 1000 decisions" in line


def test_a_shard_tells_how_many_questions_it_did_not_answer(told: Told) -> None:
    told.look(DOWN)
    for shard in ("b:1", "b:1", "", "unknown:1"):
        told.seen.unanswered(shard)
    assert told.look(UP, after_s=3) == ["b:1 decides again after 3.0 s; 2 questions were not asked or answered"]


def test_what_is_told_of_rules_and_shards_that_are_gone_is_forgotten(told: Told) -> None:
    told.seen.without_store("gone", refused=False)
    told.look(DOWN)
    told.seen.forget_others(["search"])
    assert told.seen.rules == {}
    assert told.look({"a:1": "up"}, after_s=100) == []
    assert told.look(UP) == []
