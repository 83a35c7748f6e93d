"""What a change does to a rule, field by field, and in which direction where that is certain. Pure.

A direction is said of what is asked of clients, not of how it is written: `100/minute` and `capacity: 100` with
`refill_per_sec: 1.6667` are compared as numbers, and match conditions as the sets of requests that they let in.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from limen.core.algorithm import AnyLimit
from limen.core.concurrency import SlotLimit
from limen.errors import LimenError
from limen.rules.match_diff import match_differences
from limen.rules.model import DEFAULTS, Rule
from limen.rules.parse import rule_from_mapping

__all__ = ["Difference", "differences", "differences_to_document", "differences_to_lines"]

Document = Mapping[str, Any]
OfAnyKind = AnyLimit | SlotLimit

LIMIT_FIELDS = ("limit", "capacity", "refill_per_sec", "algorithm")
NUMBERS = ("cost", "rollout")
WIDEST = 60
"""A value is shown to people in so many characters."""


class Difference(NamedTuple):
    """One field that a change touches."""

    field: str
    """As in a document, such as `limit` or `match.path`; `rule` when the whole rule comes or goes."""
    kind: str
    """`added`, `removed`, `changed`; of a limit or a number `raised` or `lowered`; of a match `widened` or `narrowed`;
    `respelled` when it means the same as before."""
    before: Any = None
    """As it was written; None: it was not."""
    after: Any = None
    factor: float | None = None
    """Of a limit: what is left of it. 0.5 is half of the capacity or of the rate, whichever changed more. None where
    there is no such number: from or to `unlimited`, up from 0, or up in one and down in the other."""


def differences(before: Document | None, after: Document | None) -> list[Difference]:
    """Everything that a change does to one rule.

    Args:
        before, after: rule documents; None: there is no such rule. One that is not a valid rule is compared as text.
    """
    if before is None or after is None:
        if before is after:
            return []
        return [Difference("rule", "added" if before is None else "removed", _plain(before), _plain(after))]
    old, new = _rule(before), _rule(after)
    found = _limit_differences(before, after, old, new) if old and new else []
    compared = {"id", *(LIMIT_FIELDS if old and new else ())}
    for field in dict.fromkeys([*before, *after]):
        if field not in compared:
            found += _field_differences(field, before.get(field), after.get(field), bool(old and new))
    return found


def differences_to_document(found: list[Difference]) -> list[dict[str, Any]]:
    """As JSON: fields that say nothing are left out."""
    return [
        {name: value for name, value in each._asdict().items() if value is not None or name in ("field", "kind")}
        for each in found
    ]


def differences_to_lines(found: list[Difference]) -> list[str]:
    """For people: one line each, such as `limit: 100/minute -> 50/minute (lowered to 0.5 of it)`."""
    return [_line(each) for each in found]


def _line(each: Difference) -> str:
    if each.field == "rule":
        return "a new rule" if each.kind == "added" else "the rule is deleted"
    how = each.kind if each.factor is None else f"{each.kind} to {each.factor:.3g} of it"
    return f"{each.field}: {_shown(each.before)} -> {_shown(each.after)} ({how})"


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else repr(value)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _plain(document: Document | None) -> dict[str, Any] | None:
    return None if document is None else dict(document)


def _rule(document: Document) -> Rule | None:
    try:
        return rule_from_mapping(document)
    except (LimenError, TypeError, ValueError):
        return None


def _field_differences(field: str, before: Any, after: Any, comparable: bool) -> list[Difference]:
    default = DEFAULTS.get(field)
    if before == after or (before in (None, default) and after in (None, default) and comparable):
        return []
    if field == "match" and comparable:
        return [Difference(*each) for each in match_differences(before or {}, after or {})]
    if field in NUMBERS:
        return [Difference(field, _direction(before, after, default), before, after)]
    kind = "added" if before is None else "removed" if after is None else "changed"
    return [Difference(field, kind, before, after)]


def _direction(before: Any, after: Any, default: Any) -> str:
    old, new = (default if value is None else value for value in (before, after))
    if type(old) is not int or type(new) is not int:
        return "changed"
    return "raised" if new > old else "lowered"


def _limit_differences(before: Document, after: Document, old: Rule, new: Rule) -> list[Difference]:
    was, shall = _limit_as_written(before), _limit_as_written(after)
    if was == shall:
        return []
    if old.limit == new.limit and old.algorithm == new.algorithm:
        return [Difference("limit", "respelled", was, shall)]
    kind, factor = _compared(old.limit, new.limit)
    return [Difference("limit", kind, was, shall, factor)]


def _limit_as_written(document: Document) -> Any:
    """One text where it is one; else the fields that say it."""
    written = {name: document[name] for name in LIMIT_FIELDS if document.get(name) is not None}
    return written["limit"] if written.keys() == {"limit"} else written


def _compared(old: OfAnyKind | None, new: OfAnyKind | None) -> tuple[str, float | None]:
    """(kind, factor). A limit is two numbers: how much at once, and how much in the long run."""
    if old is None or new is None:
        return ("lowered" if old is None else "raised"), 0.0 if new is not None and not new.capacity else None
    if isinstance(old, SlotLimit) != isinstance(new, SlotLimit):
        return "changed", None
    pairs = [(Fraction(old.capacity), Fraction(new.capacity)), (_rate(old), _rate(new))]
    falls, rises = any(b > a for b, a in pairs), any(b < a for b, a in pairs)
    if falls == rises:
        return "changed", None
    ratios = [after / before for before, after in pairs if before]
    if falls:
        return "lowered", float(min(ratios))
    return "raised", float(max(ratios)) if len(ratios) == len(pairs) else None


def _rate(limit: OfAnyKind) -> Fraction:
    """Tokens per second in the long run; of slots there is no such number, and nothing that it could differ by."""
    refill = getattr(limit, "refill_per_sec", None)
    if refill is not None:
        return Fraction(refill)
    window_us = getattr(limit, "window_us", None)
    return Fraction(limit.capacity * 1_000_000, window_us) if window_us else Fraction(0)
