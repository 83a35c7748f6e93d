"""What a change of rules would do, for people in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = ["review_lines", "verdict_lines"]

INDENT = "  "

Json = Mapping[str, Any]


def review_lines(review: Json) -> list[str]:
    """The differences rule by rule, what is dangerous about them, and what they would do.

    Args:
        review: as `limen.admin.review.Review.to_document` gives it.
    """
    dangers = (f"look: rule {each['rule']!r}: {each['message']}" for each in review["dangers"])
    return [*_differences(review["diff"]), *dangers, *_effect(review["effect"], review["unjudged"])]


def verdict_lines(review: Json) -> list[str]:
    """What the guard says to it."""
    if review["verdict"] == "allowed":
        return ["guard: it goes in"]
    last = "it would go in all the same" if review["verdict"] == "released" else f"refused; {review['advice']}"
    return [f"guard: {line}" for line in (*review["why"], last)]


def _differences(diff: Json) -> Iterator[str]:
    from limen.rules.diff import Difference, differences_to_lines

    for rule, found in sorted(diff.items()):
        yield rule
        yield from (INDENT + line for line in differences_to_lines([Difference(**each) for each in found]))


def _effect(effect: Json | None, unjudged: str) -> Iterator[str]:
    if effect is None:
        yield f"effect: {unjudged}"
        return
    yield (
        f"effect: of {effect['requests']} requests {effect['newly_denied']}"
        f" ({effect['newly_denied_ratio'] * 100:.2f} %) would be newly denied, {effect['newly_allowed']} newly allowed"
    )
    if effect["newly_denied"]:
        yield from (INDENT + line for line in _newly_denied(effect))


def _newly_denied(effect: Json) -> Iterator[str]:
    first = "" if effect["first_at"] is None else f", first at {_moment(effect['first_at'])}"
    yield f"to {effect['clients_newly_denied']} of {effect['clients']} clients that were seen{first}"
    for name in ("plan", "rule"):
        yield f"by {name}: " + ", ".join(f"{key} {count}" for key, count in effect[f"{name}s"].items())
    for each in effect["most"]:
        plan = f" ({each['plan']})" if each["plan"] else ""
        yield f"{each['client']}{plan}: {each['newly_denied']}"


def _moment(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
