"""JSON as RFC 8259 has it, and nothing else: no NaN, no infinity, no key twice, no half characters, no bomb."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from limen.errors import UsageError
from limen.rules.parse import MAX_BYTES

__all__ = ["MAX_BYTES", "MAX_DEPTH", "json_from_text"]

MAX_DEPTH = 20
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"


def json_from_text(text: object) -> Any:
    """The value of a JSON text.

    Raises:
        UsageError: not text, not JSON, larger than 1 MiB, or nested deeper than 20 levels.
    """
    if not isinstance(text, str | bytes):
        raise UsageError(f"must be JSON text, not {type(text).__name__}")
    if len(text) > MAX_BYTES:
        raise UsageError(f"larger than {MAX_BYTES >> 20} MiB")
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_without_repeats)
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"not readable as JSON: {error}") from error
    except RecursionError as error:
        raise UsageError(TOO_DEEP) from error
    _check(value, 0)
    return value


def _refuse(constant: str) -> NoReturn:
    raise UsageError(f"{constant} is not a number in JSON; write a finite number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise UsageError(f"{digits[:40]} is too large a number")
    return number


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{name[:40]!r} is there twice; keep one of them")
        found[name] = value
    return found


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict | list):
        if depth == MAX_DEPTH:
            raise UsageError(TOO_DEEP)
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, depth + 1)
        for name in value if isinstance(value, dict) else ():
            _check_text(name)


def _check_text(text: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"{text[:40]!r} holds half of a character (a lone surrogate)")
