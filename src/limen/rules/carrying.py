"""How the buckets of a rule follow it when its limit becomes another one. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from limen.core.algorithm import AnyLimit
from limen.core.carry import AS_IS, Carry, lasts_us
from limen.core.concurrency import SlotLimit
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet

__all__ = ["MARGIN_US", "can_settle", "carried", "limit_of", "next_carry", "settled"]

MARGIN_US = 60_000_000
"""For gateways that follow a change late, and for clocks that differ."""


def next_carry(before: Rule | None, after: Rule, generation: int, now_us: int) -> Carry | None:
    """How the buckets of a rule become those of the rule that replaces it; None: as they are.

    What has begun goes on: while buckets may still be converted to the limit of `before`, every other limit is a new
    generation, so that nobody mistakes a bucket of one for a bucket of the other.

    Args:
        before: None when there was no such rule, or none that could be read.
        after: what replaces it.
        generation: of the change: larger than that of any before it.
        now_us: microseconds since 1970.
    """
    begun = _running(before, now_us)
    limit, old = after.limit, None if before is None else before.limit
    if before is None or limit is None or isinstance(limit, SlotLimit):
        return begun
    same_buckets = old is not None and (old.algorithm, before.key_by, before.colocate) == (
        limit.algorithm, after.key_by, after.colocate,
    )  # fmt: skip
    if same_buckets and old == limit:
        return begun
    how = after.carry_over if same_buckets else AS_IS
    if begun is None and how == AS_IS:
        return None
    counted_by = old if begun is None else begun.before
    limits = [each for each in (limit, old, counted_by) if each is not None and not isinstance(each, SlotLimit)]
    until_us = now_us + max(map(lasts_us, limits)) + MARGIN_US
    unstamped = None if isinstance(counted_by, SlotLimit) else counted_by
    return Carry(generation, how, unstamped, max(until_us, begun.until_us if begun else 0))


def carried(before: RuleSet, after: RuleSet, now_us: int) -> RuleSet:
    """Rules that replace others, where nobody but this process knows the others: it numbers changes by the time."""
    rules = [_carried(before.by_id.get(rule.id), rule, now_us) for rule in after.rules]
    return _with(after, rules)


def settled(ruleset: RuleSet, now_us: int) -> RuleSet:
    """The same rules, without what is over: all their buckets are converted, or full."""
    rules = [rule.carried_by(None) if _is_over(rule.carry, now_us) else rule for rule in ruleset.rules]
    return _with(ruleset, rules)


def can_settle(ruleset: RuleSet, now_us: int) -> bool:
    """Whether something is over."""
    return any(_is_over(rule.carry, now_us) for rule in ruleset.rules)


def _carried(before: Rule | None, after: Rule, now_us: int) -> Rule:
    if after.carry_over == AS_IS and (before is None or before.carry is None):
        return after
    return after.carried_by(next_carry(before, after, now_us, now_us))


def _with(ruleset: RuleSet, rules: Iterable[Rule]) -> RuleSet:
    made = tuple(rules)
    if all(one is other for one, other in zip(made, ruleset.rules, strict=True)):
        return ruleset
    return RuleSet(made, ruleset.revision, ruleset.versions)


def _running(rule: Rule | None, now_us: int) -> Carry | None:
    carry = None if rule is None else rule.carry
    return carry if carry is not None and carry.until_us > now_us else None


def _is_over(carry: Carry | None, now_us: int) -> bool:
    """A little later than the store says so: its clock is another one."""
    return carry is not None and carry.until_us + MARGIN_US <= now_us


def limit_of(rule: Rule) -> AnyLimit | None:
    """The limit of a rule whose buckets hold tokens."""
    return None if isinstance(rule.limit, SlotLimit) else rule.limit
