"""Every spelling of a limit, and what the bad ones are told."""

from __future__ import annotations

from datetime import UTC
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limen.core.calendar_window import CalendarWindow
from limen.core.concurrency import SlotLimit
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.errors import UsageError
from limen.rules.limit_text import check_capacity, check_refill, limit_from_text

MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("text", "capacity", "rate"),
    [
        ("100/minute", 100, Fraction(100, MINUTE)),
        ("1000/hour", 1000, Fraction(1000, HOUR)),
        ("20/second burst 100", 100, 20),
        ("5 per 30s", 5, Fraction(5, 30)),
        ("5 per second", 5, 5),
        ("5/s", 5, 5),
        ("5/sec", 5, 5),
        ("5/secs", 5, 5),
        ("5/seconds", 5, 5),
        ("5/m", 5, Fraction(5, MINUTE)),
        ("5/min", 5, Fraction(5, MINUTE)),
        ("5/minutes", 5, Fraction(5, MINUTE)),
        ("5/h", 5, Fraction(5, HOUR)),
        ("5/hr", 5, Fraction(5, HOUR)),
        ("5/hours", 5, Fraction(5, HOUR)),
        ("5/d", 5, Fraction(5, DAY)),
        ("5/day", 5, Fraction(5, DAY)),
        ("5/30 days", 5, Fraction(5, 30 * DAY)),
        ("5/w", 5, Fraction(5, 7 * DAY)),
        ("5/week", 5, Fraction(5, 7 * DAY)),
        ("1/100ms", 1, 10),
        ("1/100 milliseconds", 1, 10),
        ("100/MINUTE", 100, Fraction(100, MINUTE)),
        ("100 PER Minute BURST 7", 7, Fraction(100, MINUTE)),
        ("  100  /  minute  ", 100, Fraction(100, MINUTE)),
        ("1,000/hour", 1000, Fraction(1000, HOUR)),
        ("1_000/hour burst 2_000", 2000, Fraction(1000, HOUR)),
        ("1000000/second", 10**6, 10**6),
        ("1/365 days", 1, Fraction(1, 365 * DAY)),
        ("0/minute", 0, 0),
    ],
)
def test_spelling(text: str, capacity: int, rate: Fraction) -> None:
    assert limit_from_text(text) == Limit(capacity, Fraction(rate))


@pytest.mark.parametrize("text", ["unlimited", "Unlimited", " UNLIMITED "])
def test_unlimited_is_said_in_words(text: str) -> None:
    assert limit_from_text(text) is None


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "is not a limit; write it as '100/minute'"),
        ("10", "is not a limit"),
        ("10m", "is not a limit"),
        ("PT1M", "is not a limit"),
        ("-1/minute", "is not a limit"),
        ("1.5/minute", "is not a limit"),
        ("1e3/minute", "is not a limit"),
        ("_/minute", "is not a limit"),
        (",/minute", "is not a limit"),
        ("100/minute burst", "is not a limit"),
        ("100/minute burst -5", "is not a limit"),
        ("100/minute, 5/second", "is not a limit"),
        ("9" * 5000 + "/minute", "is not a limit"),
        ("1/" + "9" * 5000 + " days", "is not a limit"),
        ("١٠/minute", "is not a limit"),
        ("5/0s", "the period is 0"),
        ("5/fortnight", "'fortnight' is not a unit; use second, minute, hour, day or week"),
        ("5/years", "a year has no fixed length"),
        ("0/minute burst 5", "never refills and would lock clients out for good; write '0/minute'"),
        ("5/minute burst 0", "a bucket without room never allows"),
        ("2000000000/day", "capacity must be between 0 and 1,000,000,000"),
        ("2000000/second", "refill_per_sec must be between 0 and 1,000,000"),
        ("1000/999999999 weeks", "more than 70 years to fill"),
    ],
)
def test_a_bad_spelling_is_told_what_to_write_instead(text: str, advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        limit_from_text(text)
    assert advice in str(caught.value)


@given(st.text(max_size=30) | st.from_regex(r"[0-9]{1,25} ?(/|per) ?[0-9]{0,12} ?[a-z]{0,8}( burst [0-9]{0,25})?"))
def test_any_text_is_a_limit_or_a_usage_error(text: str) -> None:
    try:
        limit = limit_from_text(text)
    except UsageError:
        return
    assert limit is None or limit.capacity == 0 or not isinstance(limit, Limit) or limit.refill_per_sec > 0


@given(st.integers(1, 10**6), st.integers(1, 999), st.sampled_from(["second", "minute", "hour"]), st.integers(1, 10**6))
def test_amount_period_and_burst_mean_what_they_say(amount: int, count: int, unit: str, burst: int) -> None:
    seconds = count * {"second": 1, "minute": 60, "hour": 3600}[unit]
    assume(burst * seconds < 70 * 365 * DAY * amount)
    limit = limit_from_text(f"{amount} per {count} {unit}s burst {burst}")
    assert limit is not None
    assert (limit.capacity, limit.refill_per_sec) == (burst, Fraction(amount, seconds))


@pytest.mark.parametrize("value", [True, False, 1.0, "5", None, -1, 10**9 + 1, float("nan"), [5]])
def test_a_capacity_is_a_whole_number_in_range(value: object) -> None:
    with pytest.raises(UsageError, match="capacity must be"):
        check_capacity(value)


@pytest.mark.parametrize(
    "value", [True, "5", None, -1, -0.5, 10**6 + 1, 10**400, float("nan"), float("inf"), float("-inf"), [5]]
)
def test_a_refill_is_a_finite_number_in_range(value: object) -> None:
    with pytest.raises(UsageError, match="refill_per_sec must be"):
        check_refill(value)


def test_a_refill_of_a_float_is_the_simple_fraction_that_was_meant() -> None:
    assert check_refill(1.6667) == Fraction(16667, 10_000)
    assert check_refill(100 / 60) == Fraction(5, 3)
    assert check_refill(Fraction(10, 13)) == Fraction(10, 13)
    assert check_refill(7) == 7


@pytest.mark.parametrize(
    ("algorithm", "text", "limit"),
    [
        ("fixed_window", "100/minute", FixedWindow(100, MINUTE * 10**6)),
        ("fixed_window", "5 per 30s", FixedWindow(5, 30 * 10**6)),
        ("sliding_window", "100/hour", SlidingWindow(100, HOUR * 10**6)),
        ("sliding_window", "7/1500ms", SlidingWindow(7, 1_500_000)),
        ("sliding_log", "1000/day", SlidingLog(1000, DAY * 10**6)),
        ("token_bucket", "100/minute", Limit(100, Fraction(100, MINUTE))),
        ("fixed_window", "unlimited", None),
        ("fixed_window", "0/minute", FixedWindow(0, MINUTE * 10**6)),
    ],
)
def test_the_same_text_under_another_algorithm(algorithm: str, text: str, limit: object) -> None:
    assert limit_from_text(text, algorithm) == limit


@pytest.mark.parametrize("algorithm", [None, "fixed_window"])
@pytest.mark.parametrize(
    ("text", "unit", "zone"),
    [
        ("100000/month", "month", UTC),
        ("100,000 per month Europe/Berlin", "month", ZoneInfo("Europe/Berlin")),
        ("5/year", "year", UTC),
        ("5/calendar minute", "minute", UTC),
        ("5/calendar day America/New_York", "day", ZoneInfo("America/New_York")),
        ("5/day utc", "day", UTC),
        ("5/WEEK Asia/Kolkata", "week", ZoneInfo("Asia/Kolkata")),
        ("5/hour Etc/GMT+3", "hour", ZoneInfo("Etc/GMT+3")),
    ],
)
def test_windows_of_a_calendar(text: str, unit: str, zone: object, algorithm: str | None) -> None:
    limit = limit_from_text(text, algorithm)
    assert isinstance(limit, CalendarWindow)
    assert (limit.unit, limit.zone) == (unit, zone)


@pytest.mark.parametrize(
    ("text", "slots", "seconds"), [("10 concurrent", 10, 30), ("1,000 concurrent for 60s", 1000, 60)]
)
def test_how_many_at_a_time(text: str, slots: int, seconds: int) -> None:
    assert limit_from_text(text) == limit_from_text(text, "concurrency") == SlotLimit(slots, seconds * 10**6)


@pytest.mark.parametrize(
    ("algorithm", "text", "advice"),
    [
        ("sliding_log", "1001/minute", "use sliding_window or token_bucket for larger limits"),
        ("fixed_window", "100/minute burst 5", "only a token_bucket has a burst"),
        ("token_bucket", "5/month", "use algorithm: fixed_window, or write '1000/30 days'"),
        ("sliding_window", "5/year", "or write '1000/365 days'"),
        ("sliding_log", "5/day Europe/Berlin", "which is a fixed_window and not a sliding_log"),
        (None, "5/day Europe/Bonn", "there is no time zone 'Europe/Bonn'"),
        (None, "5/day ../../etc/passwd", "is not a limit"),
        ("fixed_window", "10 concurrent", "is a concurrency limit and not a fixed_window"),
        ("concurrency", "10/minute", "write '10 concurrent'"),
        (None, "0 concurrent", "a concurrency limit is 1 to"),
        ("fixed_window", "5/100 years", "is not a unit|no fixed length"),
    ],
)
def test_what_does_not_go_together_is_told_what_to_write(algorithm: str | None, text: str, advice: str) -> None:
    with pytest.raises(UsageError, match=advice):
        limit_from_text(text, algorithm)
