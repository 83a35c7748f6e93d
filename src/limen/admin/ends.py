"""When something ends, as operators write it: how long it lasts, or the moment. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, isfinite

from limen.errors import UsageError
from limen.rules.duration import duration_s

__all__ = ["LAST_S", "lasting", "still_to_come"]

LAST_S = 2**40
"""No end is later: some 30 000 years from now."""


def lasting(value: object) -> float:
    """Seconds, more than none.

    Raises:
        UsageError: not such a length of time.
    """
    seconds = duration_s(value)
    if not isfinite(seconds) or not 0 < seconds <= LAST_S:
        raise UsageError(f"must be longer than nothing, such as 90s, 15m, 1h or 1d, not {value!r:.40}")
    return seconds


def still_to_come(value: object, now: float) -> int:
    """An end in whole Unix seconds, from such seconds or ISO 8601.

    Raises:
        UsageError: no such moment, or one that is over.
    """
    end = _moment(value)
    if not isfinite(end) or not now < end <= LAST_S:
        raise UsageError(f"{value!r:.40} is not a moment that is still to come")
    return ceil(end)


def _moment(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) <= LAST_S else float("inf")
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(f"write Unix seconds, or a time such as 2030-01-31T12:00:00Z, not {value!r:.40}") from error
