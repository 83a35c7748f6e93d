"""All rules at one moment: an immutable, numbered snapshot with an index by path.

Rules are found by walking a tree of path segments, so a request is never compared with rules on other paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from limen.core.limit import Limit
from limen.errors import Problem, RuleError
from limen.rules.match import ANY_SEGMENT
from limen.rules.model import Rule
from limen.rules.path import canonical_path, segments_of
from limen.rules.request import Request

__all__ = ["RuleSet"]


class RuleSet:
    """Every rule that is in force.

    Args:
        rules: in any order; all that match a request apply.
        revision: the number of this state of the rules; grows with every change.
        versions: of the rules, by id, where somebody counts them.

    Raises:
        RuleError: two rules have one id, or a rule can never be met because it is the twin of another.
    """

    __slots__ = ("__weakref__", "_root", "by_id", "lending", "plain", "revision", "rules", "versions")

    def __init__(
        self, rules: Iterable[Rule] = (), revision: int = 0, versions: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.rules = tuple(rules)
        self.revision = revision
        self.versions = versions
        _refuse_duplicates(self.rules)
        self.by_id = MappingProxyType({rule.id: rule for rule in self.rules})
        self.plain = _plain_rules(self.rules)
        """The rules that `check` can take a short cut for. Made here, so that putting a set in force is no work."""
        self.lending = {rule.id: rule for rule in self.rules if rule.lease is not None and _lends(rule)}
        self._root = _Node()
        for rule in self.rules:
            if rule.mode != "off":
                self._root.add(rule)

    def matching(self, request: Request) -> tuple[list[Rule], list[str]]:
        """The rules that apply to `request`, and the segments of its canonical path."""
        segments = segments_of(canonical_path(request.path))
        found: list[Rule] = []
        for rule in self._root.find(segments):
            for holds in rule.match.predicates:
                if not holds(request):
                    break
            else:
                found.append(rule)
        return found, segments

    def pieces(self) -> list[object]:
        """Whatever the set is made of; what holds others comes after them. To let go of it all at once takes a while:
        who holds this list can drop it from its end, a few things at a time."""
        return [*self.rules, *self.plain.values(), *reversed(self._root.below())]


NOTHING_BELOW: dict[str, Any] = {}
"""Of every node that has no children. Like the empty tuples below: one object for thousands of nodes."""


class _Node:
    """One segment of the path tree."""

    __slots__ = ("any_child", "children", "ends", "rest")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = NOTHING_BELOW
        self.any_child: _Node | None = None
        self.ends: Sequence[Rule] = ()
        self.rest: Sequence[Rule] = ()

    def add(self, rule: Rule) -> None:
        pattern = rule.match.path
        node = self
        for segment in pattern.segments if pattern else ():
            node = node._child(segment)
        if pattern is None or pattern.open_ended:
            node.rest = _with(node.rest, rule)
        else:
            node.ends = _with(node.ends, rule)

    def _child(self, segment: str) -> _Node:
        if segment != ANY_SEGMENT:
            if self.children is NOTHING_BELOW:
                self.children = {}
            return self.children.setdefault(segment, _Node())
        if self.any_child is None:
            self.any_child = _Node()
        return self.any_child

    def below(self) -> list[_Node]:
        """This node and all under it."""
        found = [self]
        for node in found:
            found += node.children.values()
            if node.any_child is not None:
                found.append(node.any_child)
        return found

    def find(self, segments: Sequence[str]) -> list[Rule]:
        """The rules whose path fits. Breadth first: one list of nodes a segment, no recursion."""
        found = list(self.rest)
        nodes = [self]
        for segment in segments:
            following: list[_Node] = []
            for node in nodes:
                child = node.children.get(segment)
                if child is not None:
                    following.append(child)
                if node.any_child is not None:
                    following.append(node.any_child)
            nodes = following
            if not nodes:
                return found
            for node in nodes:
                found += node.rest
        for node in nodes:
            found += node.ends
        return found


def _with(rules: Sequence[Rule], rule: Rule) -> Sequence[Rule]:
    """`rules` and one more: they grow in place, but for the empty tuple."""
    if not isinstance(rules, list):
        return [rule]
    rules.append(rule)
    return rules


def _plain_rules(rules: Iterable[Rule]) -> dict[str, tuple[Rule, Limit]]:
    """The rules that count plainly: one token bucket for each client, and nothing else to look at."""
    return {
        rule.id: (rule, rule.limit)
        for rule in rules
        if type(rule.limit) is Limit
        and rule.limit.capacity
        and not rule.colocate
        and rule.key_by == ("client",)
        and rule.mode == "enforce"
        and rule.rollout == 100
        and rule.candidate is None
        and rule.carry is None
    }


def _lends(rule: Rule) -> bool:
    return rule.mode == "enforce" and isinstance(rule.limit, Limit)


def _refuse_duplicates(rules: Sequence[Rule]) -> None:
    problems, seen = [], dict[str, Rule]()
    for rule in rules:
        if rule.id in seen:
            problems.append(Problem("two rules have this id; give each its own", rule.id, "id"))
        seen[rule.id] = rule
    problems += [
        Problem(f"does what rule {first.id!r} does already: same match, same key, same limit; remove one", second.id)
        for first, second in _twins(list(seen.values()))
    ]
    if problems:
        raise RuleError(problems)


def _twins(rules: Sequence[Rule]) -> Iterable[tuple[Rule, Rule]]:
    """Pairs that are told apart by nothing but their ids: the second would never be the one that decides.

    Rules without a match are left alone: such rules are asked for by name. So are looser rules beside tighter ones:
    what they count is shown, and they decide as soon as the tighter one is lifted.
    """
    seen: dict[str, Rule] = {}
    for rule in rules:
        if not rule.match.document or rule.mode == "off":
            continue
        likeness = repr(_likeness(rule))
        if likeness in seen:
            yield seen[likeness], rule
        seen.setdefault(likeness, rule)


def _likeness(rule: Rule) -> list[tuple[str, object]]:
    """Everything that decides; names and tags do not."""
    document = {"cost": 1, **rule.to_document(), "match": sorted((rule.match.document or {}).items())}
    named = ("id", "public_name", "tags", "capacity", "refill_per_sec", "limit", "candidate", "carry_over")
    return [*sorted(item for item in document.items() if item[0] not in named), ("limit", rule.limit)]
