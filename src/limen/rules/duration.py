"""How long something lasts: `100ms`, `90s`, `15m`, `1h`, `1d`, or a number of seconds."""

from __future__ import annotations

import re

from limen.errors import UsageError

__all__ = ["duration_s"]

SECONDS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SPELLING = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s?(ms|[smhdw]?)", re.ASCII)


def duration_s(value: object) -> float:
    """Seconds.

    Raises:
        UsageError: neither such a text nor a number.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    found = SPELLING.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found:
        raise UsageError(f"{value!r} is not a length of time; write 90s, 15m, 1h, 1d, or a number of seconds")
    seconds = float(found[1]) * SECONDS[found[2]]
    return int(seconds) if seconds.is_integer() else seconds
