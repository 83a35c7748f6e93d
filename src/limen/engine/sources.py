"""Where rules can be kept. Each kind is resolved by name, so that its libraries load only when it is used."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Protocol, cast

from limen.errors import SettingsError
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Standing

__all__ = ["RuleSource", "rule_source"]

SOURCES = {
    "file": "limen.admin.sources:rules_from_file",
    "sqlite": "limen.admin.sources:rules_from_database",
    "postgresql": "limen.admin.sources:rules_from_database",
}


class RuleSource(Protocol):
    """Something that keeps the rules in force as they are written elsewhere."""

    every_s: float
    """How often it looks."""

    async def start(self) -> None:
        """Load the rules and begin to watch them."""

    async def refresh(self) -> None:
        """Look at once. Does not raise."""

    async def stop(self) -> None: ...


Make = Callable[[str, Callable[[RuleSet], None], Callable[[], None], Callable[[Standing], None]], RuleSource]


def rule_source(
    url: str,
    use_rules: Callable[[RuleSet], None],
    looked: Callable[[], None],
    use_standing: Callable[[Standing], None],
) -> RuleSource:
    """The source behind a URL; it calls `use_rules` with each new state, `looked` after each look, and `use_standing`
    with what is said there of single clients, where that can be.

    Raises:
        SettingsError: no such kind.
    """
    scheme = url.partition(":")[0]
    if scheme not in SOURCES:
        raise SettingsError(f"rules cannot be kept in {scheme!r}; use a list, file:///…, sqlite:///… or postgresql://…")
    make = cast("Make", resolve_name(SOURCES[scheme]))
    return make(url, use_rules, looked, use_standing)
