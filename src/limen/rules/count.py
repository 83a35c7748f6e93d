"""How many there should be, as people write it: `100`, `at most 100`, `at least 90`, `90 to 100`."""

from __future__ import annotations

import re
from typing import NamedTuple

from limen.errors import UsageError

__all__ = ["Count", "count_from"]

NUMBER = r"(\d[\d_,]{0,14})"
SPELLING = re.compile(
    rf"(?:(?:exactly\s+)?{NUMBER}|at[ _]most\s+{NUMBER}|at[ _]least\s+{NUMBER}|{NUMBER}\s+to\s+{NUMBER})",
    re.IGNORECASE | re.ASCII,
)


class Count(NamedTuple):
    """A number that lies within bounds, which are part of it."""

    at_least: int = 0
    at_most: int | None = None

    def holds(self, number: int) -> bool:
        return self.at_least <= number and (self.at_most is None or number <= self.at_most)

    def __str__(self) -> str:
        if self.at_least == self.at_most:
            return f"exactly {self.at_least}"
        if self.at_most is None:
            return f"at least {self.at_least}"
        return f"{self.at_least} to {self.at_most}" if self.at_least else f"at most {self.at_most}"


def count_from(written: object) -> Count:
    """
    Raises:
        UsageError: neither a whole number nor such a text, or one that nothing can be.
    """
    if type(written) is int and written >= 0:
        return Count(written, written)
    found = SPELLING.fullmatch(written.strip()) if isinstance(written, str) else None
    if not found:
        raise UsageError(f"{written!r} is not a count; write 100, 'at most 100', 'at least 90' or '90 to 100'")
    exactly, at_most, at_least, low, high = (None if part is None else _whole(part) for part in found.groups())
    if exactly is not None:
        return Count(exactly, exactly)
    if low is not None and high is not None and low > high:
        raise UsageError(f"{written!r}: nothing is that; write the smaller number first")
    return Count(at_least or low or 0, high if at_most is None else at_most)


def _whole(digits: str) -> int:
    return int(digits.replace(",", "").replace("_", ""))
