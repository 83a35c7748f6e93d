"""What is odd about rules that are valid: those that never decide, and those that contradict each other. Pure.

Nothing here is an error, and no finding is a guess: a rule that is said never to decide never refuses a request that
the other would have let through, whatever comes. (A grant on one of them can change that, and an outage of the store.)
Rules without a match are left alone: such rules may be meant to be asked for by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

from limen.core.concurrency import SlotLimit
from limen.rules.match import PathPattern
from limen.rules.model import Rule
from limen.rules.scope import Scope, scope_of
from limen.rules.tighter import is_within

__all__ = ["Finding", "findings"]

MOST_PAIRS = 300_000
"""Pairs of rules that are looked at: some seconds. Only sets of thousands of rules on the same paths have more."""

Kind = Literal["shadowed", "contradicts", "idle"]


class Finding(NamedTuple):
    """Something odd about a rule."""

    kind: Kind
    rule: str
    other: str | None
    message: str

    def __str__(self) -> str:
        return f"rule {self.rule!r} {self.message}"


class _Known(NamedTuple):
    """A rule, and which requests it is about."""

    place: int
    rule: Rule
    scope: Scope


def findings(rules: Iterable[Rule], about: Collection[str] | None = None) -> tuple[Finding, ...]:
    """Everything odd about some rules, in their order.

    Args:
        rules: a valid set.
        about: only what concerns these.
    """
    live = [rule for rule in rules if rule.mode != "off"]
    known = [_Known(place, rule, scope_of(rule.match)) for place, rule in enumerate(live)]
    asked = known if about is None else [each for each in known if each.rule.id in about]
    found = {finding.rule: finding for finding in (*_lifting_nothing(known, asked), *_never_deciding(known, asked))}
    idle = [finding for each in asked for finding in _idle(each)]
    order = {rule.id: place for place, rule in enumerate(live)}
    return tuple(sorted([*found.values(), *idle], key=lambda finding: order[finding.rule]))


def _never_deciding(known: list[_Known], asked: list[_Known]) -> Iterator[Finding]:
    tight = [each for each in known if _refuses(each.rule)]
    loose = [each for each in tight if each.rule.match.document]
    mine = {each.place for each in asked}
    pairs = chain(
        _pairs([each for each in tight if each.place in mine], loose),
        _pairs([each for each in tight if each.place not in mine], [each for each in loose if each.place in mine]),
    )
    for one, other in islice(pairs, MOST_PAIRS):
        if _never_decides(one, other) and not (one.place > other.place and _never_decides(other, one)):
            yield _told(one, other)


def _pairs(wide: list[_Known], narrow: list[_Known]) -> Iterator[tuple[_Known, _Known]]:
    """Those of which the first may cover the second. Rules on other paths, or of other clients, do not meet here."""
    marked: dict[Any, list[_Known]] = defaultdict(list)
    for each in wide:
        marks = each.scope.marks()
        for mark in [None] if marks is None else marks:
            marked[mark].append(each)
    for other in narrow:
        for place in (None, *other.scope.places()):
            yield from ((one, other) for one in marked.get(place, ()) if one is not other)


def _refuses(rule: Rule) -> bool:
    """Whether it may refuse requests, all of a key alike."""
    return rule.mode == "enforce" and rule.limit is not None and not isinstance(rule.limit, SlotLimit)


def _never_decides(one: _Known, other: _Known) -> bool:
    """Whether `other` never refuses what `one` lets through."""
    tight, loose = one.rule, other.rule
    if tight.rollout != 100 or (loose.on_failure, tight.on_failure) == ("closed", "open"):
        return False
    if not set(_counted_by(tight)) <= set(_counted_by(loose)) or not one.scope.covers(other.scope):
        return False
    same_cost = tight.to_document().get("cost", 1) == loose.to_document().get("cost", 1)
    if not same_cost and min(_costs(tight)) < max(_costs(loose)):
        return False
    return is_within(tight.limit, loose.limit, same_cost and _alike(one, other))  # type: ignore[arg-type] # see _refuses


def _alike(one: _Known, other: _Known) -> bool:
    """Whether both count the same requests by the same key."""
    same_key = set(_counted_by(one.rule)) == set(_counted_by(other.rule))
    return same_key and other.rule.rollout == 100 and other.scope.covers(one.scope)


def _costs(rule: Rule) -> list[int]:
    return [rule.cost.default, *(special.cost for special in rule.cost.special)]


def _counted_by(rule: Rule) -> list[object]:
    """The parts of the key; a segment of the path by its place, for its name means nothing elsewhere."""
    return [_part(name, rule.match.path) for name in rule.key_by]


def _part(name: str, path: PathPattern | None) -> object:
    return path.captures[name[5:]] if path is not None and name.startswith("path.") else name.lower()


def _told(one: _Known, other: _Known) -> Finding:
    name, mine = other.rule.id, one.rule.id
    if one.rule.limit is not None and not one.rule.limit.capacity:
        message = f"allows nothing: rule {mine!r} has a limit of 0 and refuses all of its requests"
        return Finding("contradicts", name, mine, message)
    if _alike(one, other):
        message = f"never decides: rule {mine!r} limits the same requests, and tighter; keep one of them"
        return Finding("contradicts", name, mine, message)
    message = (
        f"never decides: rule {mine!r} covers all of its requests, and what that lets through is within this limit"
    )
    return Finding("shadowed", name, mine, message)


def _lifting_nothing(known: list[_Known], asked: list[_Known]) -> Iterator[Finding]:
    """Rules that say unlimited, where others limit all the same."""
    limited = [each for each in known if _refuses(each.rule)]
    unlimited = [each for each in known if each.rule.limit is None and each.rule.match.document]
    mine = {each.place for each in asked}
    for each in unlimited[: MOST_PAIRS // max(1, len(limited))]:
        others = limited if each.place in mine else [other for other in limited if other.place in mine]
        other = next((other.rule.id for other in others if other.scope.meets(each.scope)), None)
        if other is not None:
            message = f"is unlimited, which lifts no other limit: rule {other!r} applies to its requests all the same"
            yield Finding("contradicts", each.rule.id, other, message)


def _idle(each: _Known) -> Iterator[Finding]:
    """What a rule says that never comes to bear."""
    rule = each.rule
    if rule.rollout == 0:
        yield Finding("idle", rule.id, None, "covers nobody with its rollout of 0; raise it, or write mode: off")
    entries = [_Known(place, rule, scope_of(special.match)) for place, special in enumerate(rule.cost.special)]
    pairs = islice(_pairs(entries, entries), MOST_PAIRS)
    covered = {two.place for one, two in pairs if one.place < two.place and one.scope.covers(two.scope)}
    for entry in entries:
        charges = f"never charges {rule.cost.special[entry.place].cost}: entry {entry.place + 1} of its cost"
        if not entry.scope.meets(each.scope):
            yield Finding("idle", rule.id, None, f"{charges} matches none of its requests")
        elif entry.place in covered:
            yield Finding("idle", rule.id, None, f"{charges} is covered by one before it")
