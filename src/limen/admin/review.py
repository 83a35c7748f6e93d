"""What a change of rules would do, and whether it may go in like this: a value, and how it is shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from limen.rules.dangers import Danger
from limen.rules.effect import Effect, effect_to_document

__all__ = ["Review"]

NOTHING: Mapping[str, Any] = {}


class Review(NamedTuple):
    """What somebody should know before they change rules."""

    action: str
    """`put`, `apply`, `delete`, `rollback`, `promote` or `approve`."""
    before: Mapping[str, Mapping[str, Any] | None]
    """The documents of the rules that change, by id; None: there was none."""
    after: Mapping[str, Mapping[str, Any] | None]
    diff: Mapping[str, Any]
    """Rule by rule: differences as JSON (`limen.rules.diff`)."""
    dangers: tuple[Danger, ...]
    effect: Effect | None
    """What it would have done to the traffic of the last hours; None when there is nothing to judge by."""
    unjudged: str
    """Why there is no effect; empty when there is one."""
    held: tuple[str, ...]
    """Why it is held up, in sentences; empty when it is not."""
    advice: str = ""
    """What to do about that."""
    released: bool = False
    """Whether it goes in although there was something to hold it up."""
    watch: bool = False
    """Whether it is compared, once it is in force, with what it was predicted to do."""

    @property
    def verdict(self) -> str:
        """`allowed`, `released`, or `refused`."""
        return "allowed" if not self.held else "released" if self.released else "refused"

    def to_document(self) -> dict[str, Any]:
        """The review as JSON."""
        return {
            "action": self.action,
            "verdict": self.verdict,
            "why": list(self.held),
            "advice": self.advice if self.verdict == "refused" else "",
            "diff": dict(self.diff),
            "dangers": [{"rule": each.rule, "kind": each.kind, "message": each.message} for each in self.dangers],
            "effect": None if self.effect is None else effect_to_document(self.effect),
            "unjudged": self.unjudged,
        }
