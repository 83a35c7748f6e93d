"""Hand-computed traces: rows of (second, cost) → (allowed, whole tokens left, seconds to wait)."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import pytest

from limen.core.limit import Limit
from limen.core.token_bucket import Bucket, level_of, settle

NEVER = None


class Row(NamedTuple):
    second: str
    cost: int
    allowed: bool
    remaining: int
    retry: str | None = "0"


TRACES = {
    "a rate of 10/13: refused a hundredth before, allowed on the dot": (
        Limit(1, Fraction(10, 13)),
        [Row("0", 1, True, 0), Row("1.29", 1, False, 0, "0.01"), Row("1.3", 1, True, 0)],
    ),
    "an old fraction and a long pause fill a bucket exactly": (
        Limit(1, Fraction(1, 3600)),
        [Row("0", 1, True, 0), Row("1979.657712", 1, False, 0, "1620.342288"), Row("864000", 1, True, 0)],
    ),
    "the part of a token that grew shortens the wait": (
        Limit(1, Fraction(1)),
        [Row("0", 1, True, 0), Row("0.2", 1, False, 0, "0.8")],
    ),
    "two a minute": (
        Limit(2, Fraction(2, 60)),
        [Row("0", 1, True, 1), Row("0", 1, True, 0), Row("0", 1, False, 0, "30")],
    ),
    "a cost equal to the capacity passes when the bucket is full": (
        Limit(5, Fraction(1, 12)),
        [Row("0", 1, True, 4), Row("0", 5, False, 4, "12"), Row("12", 5, True, 0)],
    ),
    "a cost above the capacity never passes and takes nothing": (
        Limit(5, Fraction(1, 12)),
        [Row("0", 10, False, 5, NEVER), Row("0", 1, True, 4)],
    ),
    "a quota that is spent once": (
        Limit(2, Fraction(0)),
        [Row("0", 1, True, 1), Row("0", 1, True, 0), Row("0", 1, False, 0, NEVER), Row("1e6", 1, False, 0, NEVER)],
    ),
    "a limit of 0 refuses everything": (
        Limit(0, Fraction(0)),
        [Row("0", 1, False, 0, NEVER), Row("1000", 1, False, 0, NEVER)],
    ),
    "frequent requests do not swallow the refill": (
        Limit(10, Fraction(1, 3)),
        [Row(str(second), 1, True, left) for second, left in enumerate([9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2])],
    ),
    "a cost of 0 looks": (
        Limit(3, Fraction(1)),
        [Row("0", 0, True, 3), Row("0", 3, True, 0), Row("0", 0, True, 0), Row("1.5", 0, True, 1)],
    ),
    "microseconds count": (
        Limit(1, Fraction(10**6)),
        [Row("0", 1, True, 0), Row("0", 1, False, 0, "0.000001"), Row("0.000001", 1, True, 0)],
    ),
    "one in a thousand million seconds": (
        Limit(1, Fraction(1, 10**9)),
        [Row("0", 1, True, 0), Row("0", 1, False, 0, "1e9"), Row("999999999.999999", 1, False, 0, "0.000001")],
    ),
    "a burst beside a slow refill": (
        Limit(100, Fraction(20)),
        [Row("0", 100, True, 0), Row("0.05", 1, True, 0), Row("0.05", 1, False, 0, "0.05"), Row("10", 100, True, 0)],
    ),
}


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("start_s", [0, 1_999_999_999])
def test_trace(name: str, start_s: int) -> None:
    limit, rows = TRACES[name]
    bucket: Bucket | None = None
    found = []
    for row in rows:
        now_us = microseconds(row.second) + start_s * 1_000_000
        level = level_of(bucket, limit, now_us)
        wait = limit.retry_after_us(level, row.cost)
        allowed = level >= row.cost * limit.token_ticks
        if allowed:
            level -= row.cost * limit.token_ticks
            bucket = settle(level, limit, now_us)
        found.append((allowed, level // limit.token_ticks, wait))
    assert found == [(row.allowed, row.remaining, row.retry and microseconds(row.retry)) for row in rows]


def microseconds(seconds: str) -> int:
    exact = Fraction(seconds) * 1_000_000
    assert exact.denominator == 1
    return int(exact)


def test_three_a_second_asked_ten_times_a_second_for_three_seconds() -> None:
    limit = Limit(3, Fraction(3))
    bucket: Bucket | None = None
    passed = []
    for tenth in range(30):
        level = level_of(bucket, limit, tenth * 100_000)
        if level >= limit.token_ticks:
            bucket = settle(level - limit.token_ticks, limit, tenth * 100_000)
            passed.append(tenth)
    assert passed == [0, 1, 2, 4, 7, 10, 14, 17, 20, 24, 27]


@pytest.mark.parametrize("rate", [Fraction(10, 13), Fraction(1, 3), Fraction(1, 7), Fraction(3, 7), Fraction(1, 10)])
def test_who_waits_as_told_passes_a_thousand_times_in_a_row(rate: Fraction) -> None:
    limit = Limit(1, rate)
    bucket, now_us = settle(0, limit, 0), 0
    for _ in range(1000):
        wait = limit.retry_after_us(level_of(bucket, limit, now_us), 1)
        assert wait
        now_us += wait
        bucket = settle(level_of(bucket, limit, now_us) - limit.token_ticks, limit, now_us)
