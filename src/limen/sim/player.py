"""Requests, one after the other at their times, decided by the code that decides in a gateway.

Rules that apply are remembered by everything that any rule looks at, so that a request like another finds them at the
price of a dictionary. Where all that apply are plain token buckets, which is most often, they are asked through the
short cut that `Limiter.check` takes; everything else goes through `Limiter.check_request` as it stands. A property in
the tests holds both to what a limiter says that is asked by hand.
"""

from __future__ import annotations

from collections.abc import Callable

from limen.core.concurrency import SlotLimit
from limen.core.decision import Decision
from limen.engine.conclude import conclude_one
from limen.engine.limiter import Limiter
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Standing
from limen.sim.clock import VirtualClock
from limen.sim.fields import fields_of
from limen.sim.plain import Bucket, Plain, plain
from limen.stores.memory import MemoryStore

__all__ = ["Known", "Player"]

MOST_KNOWN = 50_000
MOST_BUCKETS = 5_000_000
TIDY_FROM = 500_000
"""Most buckets that are full again come back: dropping them each time costs more than keeping them."""

Likeness = Callable[[Request], tuple[object, ...]]


class Known:
    """The rules that apply to requests that are alike.

    Attributes:
        ids: of all that apply.
        plain: what they ask, when it is as plain as that; else None.
        count: how many such requests came.
    """

    __slots__ = ("count", "ids", "plain", "segments")

    def __init__(self, rules: list[Rule], segments: list[str], plain: Plain | None) -> None:
        self.ids = [rule.id for rule in rules if rule.limit is not None and not isinstance(rule.limit, SlotLimit)]
        self.segments = segments
        self.plain = plain
        self.count = 0


class Player:
    """Decides requests of the past.

    Args:
        ruleset: the rules.
        on_forgotten: is given what was known of some requests before it is forgotten, and at the end (`finish`).
        standing: limits that some clients have in the place of those of the rules.

    Attributes:
        limiter: who decides.
    """

    def __init__(
        self,
        ruleset: RuleSet,
        on_forgotten: Callable[[Known], None] = lambda known: None,
        standing: Standing | None = None,
    ) -> None:
        self.clock = VirtualClock()
        store = MemoryStore(self.clock.now_us, MOST_BUCKETS, tidy_from=TIDY_FROM)
        self.limiter = Limiter(store, ruleset, clock=self.clock)
        if standing is not None:
            self.limiter.use_standing(standing)
        self._take_one = store.take_one
        self._ruleset = ruleset
        self._overridden = frozenset() if standing is None else frozenset(standing.overrides)
        self._likeness = likeness_of(ruleset)
        self._by_path = self._likeness is method_and_path
        self._known: dict[tuple[object, ...], Known] = {}
        self._on_forgotten = on_forgotten

    def play(self, at_us: int, request: Request) -> Decision | None:
        """The decision about a request at that moment; None when it is allowed and there is nothing else to say.

        Time never goes back: what comes late is decided at the latest moment so far.
        """
        clock = self.clock
        if at_us > clock.us:
            clock.us = at_us
        known = self._known.get(request[:2] if self._by_path else self._likeness(request)) or self._find(request)
        known.count += 1
        if known.plain is None:
            decision = self.limiter.check_request(request)
            return None if decision[0] and not decision.shadow and not decision.candidates else decision
        keys, buckets = known.plain
        if len(buckets) != 1:
            return self._play_several(buckets, [key(request, known.segments) for key in keys], request)
        rule, name, _, limit, cost, ticks = buckets[0]
        level = self._take_one((keys[0](request, known.segments), name), limit, ticks)
        return None if level >= ticks else conclude_one(rule, limit, cost, level, "memory")

    def check(self, at_us: int, client: str, rule: str, cost: int) -> Decision | None:
        """The same for one rule that was asked by its name."""
        self.clock.us = max(self.clock.us, at_us)
        decision = self.limiter.check(client, rule, cost)
        return None if decision.allowed and not decision.shadow else decision

    def ids_for(self, request: Request) -> list[str]:
        """The ids of the rules that apply to a request, but for those that hold nobody to a limit."""
        return (self._known.get(self._likeness(request)) or self._find(request)).ids

    def finish(self) -> None:
        """Hand out everything that is known."""
        self._forget()

    def _play_several(self, buckets: tuple[Bucket, ...], identities: list[str], request: Request) -> Decision | None:
        """Look at all; take from all or from none. Nobody comes between: there is one thread and the clock stands."""
        take_one, short = self._take_one, []
        for bucket in buckets:
            level = take_one((identities[bucket[2]], bucket[1]), bucket[3], 0)
            if level < bucket[5]:
                short.append((bucket, level))
        if not short:
            for bucket in buckets:
                take_one((identities[bucket[2]], bucket[1]), bucket[3], bucket[5])
            return None
        if len(short) > 1:
            return self.limiter.check_request(request)
        bucket, level = short[0]
        return conclude_one(bucket.rule, bucket.limit, bucket.cost, level, "memory")

    def _find(self, request: Request) -> Known:
        if len(self._known) >= MOST_KNOWN:
            self._forget()
        rules, segments = self._ruleset.matching(request)
        is_plain = self._overridden.isdisjoint(rule.id for rule in rules)
        found = Known(rules, segments, plain(rules, request, segments) if is_plain else None)
        self._known[self._likeness(request)] = found
        return found

    def _forget(self) -> None:
        for known in self._known.values():
            self._on_forgotten(known)
        self._known.clear()


def likeness_of(ruleset: RuleSet) -> Likeness:
    """What tells requests apart that other rules may apply to: everything that some rule looks at."""
    fields = frozenset(field for rule in ruleset.rules for field in fields_of(rule))
    names = [field for field in ("host", "plan", "client", "ip") if field in fields]
    headers = sorted(field[7:] for field in fields if field.startswith("header."))
    if not names and not headers:
        return method_and_path
    return lambda request: (
        *request[:2], *[getattr(request, name) for name in names], *[request.headers.get(name) for name in headers]
    )  # fmt: skip


def method_and_path(request: Request) -> tuple[object, ...]:
    """What tells requests apart where no rule looks at anything else."""
    return request[:2]
