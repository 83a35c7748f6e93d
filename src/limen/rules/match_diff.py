"""Whether a match lets more requests in than another, or fewer, condition by condition. Pure.

Each condition is a set of values, and all conditions must hold: a condition that goes widens the match, one that comes
narrows it. Where nobody can be certain, the answer is `changed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from limen.rules.client_ip import networks
from limen.rules.match import ANY_SEGMENT, PathPattern, path_pattern

__all__ = ["MatchDifference", "match_differences", "path_covers"]

MatchDifference = tuple[str, str, Any, Any]
"""(field, kind, before, after)"""
Conditions = Mapping[str, Any]


def match_differences(before: Conditions, after: Conditions) -> list[MatchDifference]:
    """What differs between two valid matches: `("match.path", "widened", "/a", "/a/**")`."""
    old, new = _flat(before), _flat(after)
    return [
        (f"match.{name}", _kind(name, old.get(name), new.get(name)), old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def path_covers(wide: PathPattern, narrow: PathPattern) -> bool:
    """Whether every path that fits `narrow` fits `wide`."""
    if narrow.open_ended and not wide.open_ended:
        return False
    if len(narrow.segments) < len(wide.segments):
        return False
    if len(narrow.segments) > len(wide.segments) and not wide.open_ended:
        return False
    return all(mine in (ANY_SEGMENT, theirs) for mine, theirs in zip(wide.segments, narrow.segments, strict=False))


def _flat(conditions: Conditions) -> dict[str, Any]:
    """Header fields are conditions of their own."""
    flat = {name: value for name, value in conditions.items() if name != "header"}
    for name, value in (conditions.get("header") or {}).items():
        flat[f"header.{str(name).lower()}"] = value
    return flat


def _kind(name: str, before: Any, after: Any) -> str:
    if before is None or after is None:
        return "narrowed" if before is None else "widened"
    more, fewer = _covers(name, after, before), _covers(name, before, after)
    if more and fewer:
        return "respelled"
    return "widened" if more else "narrowed" if fewer else "changed"


def _covers(name: str, wide: Any, narrow: Any) -> bool:
    """Whether each value that the condition `narrow` allows, `wide` allows too."""
    if name == "path":
        return path_covers(path_pattern(wide), path_pattern(narrow))
    if name == "ip":
        return _addresses_cover(_texts(wide), _texts(narrow))
    if name == "host":
        return all(any(_host_covers(mine, theirs) for mine in _texts(wide)) for theirs in _texts(narrow))
    if name == "methods":
        return _methods(narrow) <= _methods(wide)
    return _texts(narrow) <= _texts(wide)


def _addresses_cover(wide: frozenset[str], narrow: frozenset[str]) -> bool:
    mine = networks(wide)
    return all(
        any(each.version == other.version and _contains(each, other) for each in mine) for other in networks(narrow)
    )


def _contains(wide: Any, narrow: Any) -> bool:
    return bool(narrow.subnet_of(wide))


def _host_covers(wide: str, narrow: str) -> bool:
    mine, theirs = wide.lower().rstrip("."), narrow.lower().rstrip(".")
    return mine == theirs or (mine.startswith("*.") and theirs.endswith(mine[1:]))


def _methods(value: Any) -> frozenset[str]:
    names = {name.upper() for name in _texts(value)}
    return frozenset(names | {"HEAD"} if "GET" in names else names)


def _texts(value: Any) -> frozenset[str]:
    return frozenset([value] if isinstance(value, str) else value)
