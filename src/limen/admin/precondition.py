"""What a change expects to find, so that nobody overwrites what they have not seen. As If-Match and If-None-Match."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, NamedTuple

from limen.errors import Conflict

__all__ = ["ANYTHING", "Precondition", "precondition"]

Tags = Collection[int] | Literal["*"]

TAG = re.compile(r'\s*(W/)?("?)([^",]*)\2\s*')


class Precondition(NamedTuple):
    """A condition on the version that is there now (None: nothing is).

    Examples: `Precondition(any_of={3})` is "still version 3", `Precondition(none_of="*")` is "not there yet".
    """

    any_of: Tags | None = None
    none_of: Tags | None = None

    def holds(self, current: int | None) -> bool:
        if self.any_of is not None and not _among(self.any_of, current):
            return False
        return self.none_of is None or not _among(self.none_of, current)

    @property
    def seen(self) -> int | None:
        """The one version that its author has seen; None when it may be one of several."""
        if self.any_of is None or self.any_of == "*" or len(self.any_of) != 1:
            return None
        return next(iter(self.any_of))

    def and_also(self, other: Precondition) -> Precondition:
        """The condition that both hold. At most one of them names what must not be there."""
        return Precondition(_both(self.any_of, other.any_of), self.none_of or other.none_of)

    def check(self, what: str, current: int | None) -> None:
        """
        Raises:
            Conflict: somebody changed `what` meanwhile.
        """
        if not self.holds(current):
            there = "is not there" if current is None else f"is at version {current} now"
            raise Conflict(f"{what} {there}; read it again and repeat the change", current)


ANYTHING = Precondition()


def _both(one: Tags | None, other: Tags | None) -> Tags | None:
    if one is None or other is None:
        return other if one is None else one
    if one == "*" or other == "*":
        return other if one == "*" else one
    return frozenset(one) & frozenset(other)


def _among(tags: Tags, current: int | None) -> bool:
    return current is not None and (tags == "*" or current in tags)


def precondition(if_match: str | None, if_none_match: str | None) -> Precondition:
    """The condition in the two header fields (RFC 9110, 13.1). A tag that we never gave out matches nothing."""
    return Precondition(
        None if if_match is None else _tags(if_match, weak=False),
        None if if_none_match is None else _tags(if_none_match, weak=True),
    )


def _tags(field: str, weak: bool) -> Tags:
    if field.strip() == "*":
        return "*"
    found = [TAG.fullmatch(part) for part in field.split(",")]
    texts = [tag[3] for tag in found if tag and (weak or not tag[1])]
    return frozenset(int(text) for text in texts if text.isdecimal() and len(text) < 19)
