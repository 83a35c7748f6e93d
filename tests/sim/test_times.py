"""When a line was written is read right, whatever zone and unit it is written in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.sim.times import Times

MOMENT_US = 1_431_857_103_000_000
"""17 May 2015, 10:05:03 UTC."""


@pytest.mark.parametrize(
    "text",
    [
        "17/May/2015:10:05:03 +0000", "17/May/2015:12:05:03 +0200", "16/May/2015:23:35:03 -1030",
        "[17/May/2015:10:05:03 +0000]", "2015-05-17T10:05:03Z", "2015-05-17T10:05:03+00:00", "2015-05-17 10:05:03",
        "2015-05-17T03:05:03-07:00", "1431857103", "1431857103.000", "1431857103000", "1431857103000000",
        "1431857103000000000",
    ],
)  # fmt: skip
def test_one_moment_in_every_spelling(text: str) -> None:
    assert Times().us(text) == MOMENT_US


@pytest.mark.parametrize(
    ("text", "later_us"),
    [
        ("17/May/2015:10:05:03.250 +0000", 250_000), ("2015-05-17T10:05:03.310Z", 310_000),
        ("1431857103.001002", 1002), ("1431857103250", 250_000),
    ],
)  # fmt: skip
def test_parts_of_a_second(text: str, later_us: int) -> None:
    assert Times().us(text) == MOMENT_US + later_us


@pytest.mark.parametrize(
    "text",
    ["", "-", "now", "17/Mai/2015:10:05:03 +0000", "32/May/2015:10:05:03 +0000", "17/May/2015:25:05:03 +0000",
     "2015-13-01T00:00:00Z", "NaN", "1e9", "-5", "9" * 400, "١٤٣١٨٥٧١٠٣"],
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    times = Times()
    assert times.us(text) is None
    assert times.us(text) is None


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_the_common_log_format_in_any_zone(moment: datetime, minutes: int) -> None:
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    written = moment.astimezone(timezone(timedelta(minutes=minutes))).strftime("%d/%b/%Y:%H:%M:%S %z")
    assert Times().us(written) == int(moment.timestamp()) * 1_000_000
