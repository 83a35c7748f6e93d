"""What a request asks of its rules, where that is nothing but a token bucket each."""

from __future__ import annotations

from typing import NamedTuple

from limen.core.concurrency import SlotLimit
from limen.core.limit import Limit
from limen.rules.key import KeyFunction
from limen.rules.model import Rule
from limen.rules.request import Request

__all__ = ["Bucket", "Plain", "plain"]


class Bucket(NamedTuple):
    """One token bucket that a request asks for."""

    rule: Rule
    name: str
    whose: int
    """Which of the identities of the request it belongs to."""
    limit: Limit
    cost: int
    ticks: int


class Plain(NamedTuple):
    """What some requests ask, when it is nothing but token buckets."""

    keys: tuple[KeyFunction, ...]
    """Who they are, each in its own way; rules that count by the same share one."""
    buckets: tuple[Bucket, ...]


def plain(rules: list[Rule], request: Request, segments: list[str]) -> Plain | None:
    """What these rules ask of their buckets; None when that is more than a token bucket each."""
    keys: dict[object, int] = {}
    functions: list[KeyFunction] = []
    buckets: list[Bucket] = []
    for rule in rules:
        limit = rule.limit
        if limit is None or isinstance(limit, SlotLimit):
            continue
        cost = rule.cost_of(request, segments)
        if not _is_plain(rule) or type(limit) is not Limit or cost > limit.capacity:
            return None
        whose = keys.setdefault(_counted_alike(rule), len(keys))
        if whose == len(functions):
            functions.append(rule.key)
        buckets.append(Bucket(rule, rule.id, whose, limit, cost, cost * limit.token_ticks))
    return Plain(tuple(functions), tuple(buckets))


def _counted_alike(rule: Rule) -> object:
    """The same for rules that have the same identity for the same request. Segments have names of the rule's own."""
    return rule.id if any(part.startswith("path.") for part in rule.key_by) else rule.key_by


def _is_plain(rule: Rule) -> bool:
    """Whether it does nothing but count all of its requests in a bucket, of one kind and one generation."""
    special = rule.rollout != 100 or rule.colocate or rule.candidate is not None or rule.carry is not None
    return rule.mode == "enforce" and not special and rule.limit is not None and bool(rule.limit.capacity)
