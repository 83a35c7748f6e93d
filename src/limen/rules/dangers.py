"""What is dangerous about a change of rules, as far as the rules alone show it. Pure.

Numbers say more: how much of the real traffic would be denied is for a replay of it to tell (`limen.rules.effect`).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from limen.core.concurrency import SlotLimit
from limen.core.limit import Limit
from limen.rules.model import AUTH, Rule
from limen.rules.ruleset import RuleSet

__all__ = ["CUT", "Danger", "cut_of", "dangers", "may_deny_more", "touched"]

CUT = Fraction(10)
"""A limit that shrinks by more than this factor is a danger by itself."""


LIMIT = frozenset({"limit", "capacity", "refill_per_sec"})
DECIDING = LIMIT | {"match", "key_by", "algorithm", "cost", "mode", "rollout", "colocate"}
"""The fields of a rule that decide whether somebody is denied while the store is there."""


class Danger(NamedTuple):
    """One thing that somebody should look at."""

    kind: str
    """`limit_zero`, `limit_cut`, `limited_first`, `unprotected`; `rule_gone`, `enforced`, `more_clients`, `match`,
    `key`, `cost`."""
    rule: str
    message: str
    holds: str = "never"
    """When this alone is reason enough to hold the change up: `always`, `unjudged` (there is no traffic to judge it
    by) or `never`."""


def touched(before: RuleSet, after: RuleSet) -> tuple[str, ...]:
    """Ids of the rules that are not the same in both, sorted."""
    ids = before.by_id.keys() | after.by_id.keys()
    return tuple(sorted(rule for rule in ids if before.by_id.get(rule) != after.by_id.get(rule)))


def dangers(before: RuleSet, after: RuleSet, cut: Fraction = CUT) -> tuple[Danger, ...]:
    """Everything that is dangerous about going from one set to the other, rule by rule."""
    pairs = ((rule, before.by_id.get(rule), after.by_id.get(rule)) for rule in touched(before, after))
    return tuple(danger for rule, old, new in pairs for danger in _of_rule(rule, old, new, cut))


def may_deny_more(old: Rule | None, new: Rule | None) -> bool:
    """Whether a rule may deny what it did not deny before: not by its names, and not by a higher limit alone."""
    if new is None or not _enforced(new):
        return False
    if old is None or not _enforced(old):
        return True
    was, is_ = old.to_document(), new.to_document()
    fields = {name for name in DECIDING if was.get(name) != is_.get(name)}
    return bool(fields - LIMIT) or (bool(fields) and cut_of(old, new) != 1)


def cut_of(old: Rule, new: Rule) -> Fraction | None:
    """By what factor fewer requests pass: by the capacity or by the rate, whichever shrinks more; 1 for no fewer.

    None for one that nobody can name: what was unlimited is limited, or what was limited is 0.
    """
    if _endless(new) or _shut(old):
        return Fraction(1)
    if _endless(old) or _shut(new):
        return None
    rate_before, rate_after = _rate(old), _rate(new)
    slower = rate_before / rate_after if rate_before and rate_after else Fraction(1)
    return max(Fraction(1), _capacity(old) / _capacity(new), slower)


def _of_rule(rule: str, old: Rule | None, new: Rule | None, cut: Fraction) -> Iterator[Danger]:
    if old is not None and _enforced(old):
        yield from _less_protection(rule, old, new, cut)
    if new is not None and _enforced(new):
        yield from _of_limit(rule, old if old is not None and _enforced(old) else None, new, cut)
        if old is not None:
            yield from _of_reach(rule, old, new)


def _of_limit(rule: str, old: Rule | None, new: Rule, cut: Fraction) -> Iterator[Danger]:
    """`old` is None when nothing was enforced before."""
    factor = Fraction(1) if old is None else cut_of(old, new)
    if _shut(new):
        if old is None or not _shut(old):
            yield Danger("limit_zero", rule, "the limit becomes 0: everything that it covers is denied", "always")
    elif factor is None:
        yield Danger("limited_first", rule, "what was unlimited becomes limited", "unjudged")
    elif factor > cut:
        yield Danger("limit_cut", rule, f"the limit shrinks by a factor of {float(factor):.4g}", "always")


def _less_protection(rule: str, old: Rule, new: Rule | None, cut: Fraction) -> Iterator[Danger]:
    """What a rule kept away gets through from now on. That is dangerous where it kept people from guessing."""
    if AUTH in old.tags:
        weaker = _weaker(old, new, cut)
        if weaker:
            yield Danger("unprotected", rule, f"it has the tag {AUTH!r}, and {weaker}", "always")
    elif new is None:
        yield Danger("rule_gone", rule, "nobody is held to this limit any more")


def _weaker(old: Rule, new: Rule | None, cut: Fraction) -> str:
    if new is None:
        return "is deleted"
    if not _enforced(new):
        return "stops nobody any more"
    if AUTH not in new.tags:
        return "loses that tag"
    if new.rollout < old.rollout:
        return f"covers {new.rollout} % of the keys instead of {old.rollout} %"
    if (old.match.document or {}) != (new.match.document or {}):
        return "covers other requests than before"
    factor = cut_of(new, old)
    if factor is None:  # from 0 to something is a door that somebody opens again
        return "becomes unlimited" if _endless(new) else ""
    return f"its limit grows by a factor of {float(factor):.4g}" if factor > cut else ""


def _of_reach(rule: str, old: Rule, new: Rule) -> Iterator[Danger]:
    """Who is met by a rule that was not met before. Only traffic can tell how many that are."""
    if not _enforced(old):
        yield Danger("enforced", rule, f"its mode was {old.mode}: from now on it denies")
    elif new.rollout > old.rollout:
        yield Danger("more_clients", rule, f"it covers {new.rollout} % of the keys instead of {old.rollout} %")
    if (old.match.document or {}) != (new.match.document or {}):
        yield Danger("match", rule, "it covers other requests than before")
    if old.key_by != new.key_by:
        yield Danger("key", rule, f"it counts by {_keys(new)} instead of {_keys(old)}: buckets begin full")
    if old.cost != new.cost:
        yield Danger("cost", rule, "requests cost something else than before")


def _keys(rule: Rule) -> str:
    return " and ".join(rule.key_by) or "everybody together"


def _enforced(rule: Rule) -> bool:
    return rule.mode == "enforce" and rule.rollout > 0


def _endless(rule: Rule) -> bool:
    return rule.limit is None or not (rule.cost.default or _shut(rule))


def _shut(rule: Rule) -> bool:
    return rule.limit is not None and not rule.limit.capacity


def _capacity(rule: Rule) -> Fraction:
    """Requests that a full bucket lets through, by what a request costs."""
    assert rule.limit is not None
    return Fraction(rule.limit.capacity, rule.cost.default or 1)


def _rate(rule: Rule) -> Fraction | None:
    """Requests a second in the long run; None where that has no meaning."""
    limit: Any = rule.limit
    if isinstance(limit, SlotLimit):
        return None
    per_s = limit.refill_per_sec if isinstance(limit, Limit) else Fraction(limit.capacity * 1_000_000, limit.window_us)
    return Fraction(per_s) / (rule.cost.default or 1)
