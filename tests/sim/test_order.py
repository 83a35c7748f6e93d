"""Requests are decided in the order in which they came, whatever the order of the lines, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from limen.rules.request import Request
from limen.sim.order import Batches, in_order, merged
from limen.sim.record import Record

times = st.lists(st.integers(0, 1000), max_size=200)


def records(moments: list[int]) -> list[Record]:
    return [(moment, Request(path=f"/{number}")) for number, moment in enumerate(moments)]


def blocks(found: list[Record], size: int) -> Iterator[list[Record]]:
    return (found[at : at + size] for at in range(0, len(found), size))


@given(times, st.integers(1, 50))
def test_a_log_that_fits_the_window_comes_out_in_order(moments: list[int], size: int) -> None:
    log = records(moments)
    ordered = in_order(merged([Batches(blocks(log, size))]), window=200)
    assert [each for batch in ordered for each in batch] == sorted(log, key=lambda record: record[0])
    assert ordered.late == 0


@given(times, st.integers(1, 50), st.integers(1, 40))
def test_nothing_is_lost_and_what_is_late_is_counted(moments: list[int], size: int, window: int) -> None:
    log = records(moments)
    ordered = in_order(merged([Batches(blocks(log, size))]), window)
    found = [each for batch in ordered for each in batch]
    assert sorted(found) == sorted(log)
    late, latest = 0, 0
    for at_us, _ in found:
        late += at_us < latest
        latest = max(latest, at_us)
    assert ordered.late == late


@given(st.lists(times, max_size=4), st.integers(1, 20))
def test_several_logs_of_one_time_are_merged(logs: list[list[int]], size: int) -> None:
    written = [records(sorted(moments)) for moments in logs]
    ordered = in_order(merged([Batches(blocks(log, size)) for log in written]), window=size)
    found = [at_us for batch in ordered for at_us, _ in batch]
    assert all(earlier <= later for earlier, later in pairwise(found))
    assert len(found) == sum(map(len, logs))
    assert ordered.late == 0


def test_logs_of_one_day_each_are_read_one_after_the_other() -> None:
    read: list[str] = []

    def day(name: str, first: int) -> Iterator[list[Record]]:
        for hour in range(24):
            read.append(name)
            yield records([first + hour])

    ordered = in_order(merged([Batches(day("new", 100)), Batches(day("old", 0))]), window=10)
    assert [at_us for batch in ordered for at_us, _ in batch] == [*range(24), *range(100, 124)]
    assert read == ["new", *["old"] * 24, *["new"] * 23]
