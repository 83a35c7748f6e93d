"""An outage that an operator asks to rehearse, checked; and how it is shown. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from limen.admin.records import Drill
from limen.errors import Problem, RuleError, UsageError
from limen.rules.duration import duration_s

__all__ = ["LONGEST_S", "STORE_DOWN", "DrillOrder", "drill_body", "drill_from"]

STORE_DOWN = "store-down"
FIELDS = ("what", "percent", "seconds", "reason")
LONGEST_S = 3600


class DrillOrder(NamedTuple):
    """What is to be rehearsed."""

    percent: float
    seconds: float
    reason: str


def drill_from(document: object) -> DrillOrder:
    """The fields of `{what, percent, seconds, reason}`; the reason may be left out.

    Raises:
        RuleError: every problem, each naming its field.
    """
    if not isinstance(document, Mapping):
        example = '{"what": "store-down", "percent": 10, "seconds": 60, "reason": "game day"}'
        raise RuleError([Problem(f"a drill is an object such as {example}")])
    hint = f"there is no such field; a drill has {', '.join(FIELDS)}"
    problems = [Problem(hint, field=str(name)) for name in document if name not in FIELDS]
    read: dict[str, Any] = {}
    for name, check in CHECKS.items():
        try:
            read[name] = check(document.get(name))
        except UsageError as error:
            problems.append(Problem(str(error), field=name))
    if problems:
        raise RuleError(problems)
    return DrillOrder(read["percent"], read["seconds"], read["reason"])


def drill_body(drill: Drill, seconds_left: int | None = None) -> dict[str, Any]:
    """A drill as JSON; times are Unix times in seconds."""
    left = {} if seconds_left is None else {"seconds_left": seconds_left}
    return {**drill._asdict(), **left}


def _what(value: object) -> str:
    if value != STORE_DOWN:
        raise UsageError(f"{value!r} is nothing that can be rehearsed; there is {STORE_DOWN!r}")
    return STORE_DOWN


def _percent(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 100:
        raise UsageError("is needed, as a number above 0 and up to 100")
    return value


def _seconds(value: object) -> float:
    if value is None:
        raise UsageError(f"is needed: 90s, 15m or a number of seconds, {LONGEST_S} at most")
    seconds = duration_s(value)
    if not math.isfinite(seconds) or not 0 < seconds <= LONGEST_S:
        raise UsageError(f"a drill lasts up to {LONGEST_S} seconds, not {value!r}")
    return seconds


def _reason(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > 256 or not value.isprintable():
        raise UsageError("is at most 256 printable characters")
    return value


CHECKS = {"what": _what, "percent": _percent, "seconds": _seconds, "reason": _reason}
