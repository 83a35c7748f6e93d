"""What a fleet saw, to be asked: how long decisions took and who made them, when breakers opened, what went wrong."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from limen.core.limit import Limit
from limen.rules.bound import bound_of
from limen.rules.model import Rule
from limen.stores.valkey.names import Names
from limen.stores.valkey.topology import slot_of
from limen.testing import IntervalChecker
from tests.faults.fleet.lateness import Lateness
from tests.faults.fleet.part import Part
from tests.faults.fleet.record import Record, records
from tests.faults.fleet.scrapes import Scrapes

__all__ = ["Attempt", "Change", "Findings", "Line", "Part", "Phase", "Told"]

BOUND = "limen_rule_overshoot_bound_ratio"
ROUNDING = 1
"""A token."""
STALL_US = 50_000
WARNINGS = ("Traceback", "Warning", "Task was destroyed", "never retrieved")


class Phase(NamedTuple):
    name: str
    at_us: int


class Told(NamedTuple):
    gateway: int
    report: dict[str, Any]


class Change(NamedTuple):
    """A gateway thinks otherwise of a shard from now on."""

    at_us: int
    shard: str
    state: str
    gateway: int


class Line(NamedTuple):
    """A line of a gateway's log."""

    at_us: int
    logger: str
    text: str
    gateway: int


class Attempt(NamedTuple):
    """A gateway tried to connect."""

    at_us: int
    address: str
    answered: bool
    gateway: int


class Findings:
    """Everything that the gateways told.

    Args:
        rules: arguments of `Rule`.
        phases: as they were named.
        told: the reports of the gateways.
        errors: what they wrote to their standard error.
        scrapes: what Prometheus would have read at moments with a name, from each; the last is called `end`.
        shards: first slot of each shard.
        prefix: how clients are called, before their number.
    """

    def __init__(
        self,
        rules: Sequence[dict[str, Any]],
        phases: Sequence[Phase],
        told: Sequence[Told],
        errors: str,
        scrapes: dict[str, list[str]],
        shards: Sequence[int],
        prefix: str,
    ) -> None:
        self.rules = [Rule(**rule) for rule in rules]
        self.phases = list(phases)
        self.errors = errors
        self._told = told
        self._scrapes = Scrapes(scrapes)
        self._shards = list(shards)
        self._shard = lru_cache(maxsize=None)(self._shard_anew)
        self._prefix = prefix
        self._gateways = int(max(self._scrapes.values("limen_gateways", "end")))
        self.changes = sorted(Change(*each) for each in self._all("changes"))
        self.lines = sorted(Line(*each) for each in self._all("lines"))
        self.attempts = sorted(Attempt(*each) for each in self._all("attempts"))
        self.reports = [each.report for each in told]
        self.unhandled = [text for told in told for text in told.report["unhandled"]]
        self._late = self._lateness()
        self.all = Part(self._records(), self._late)

    def during(self, *phases: str) -> Part:
        """What was asked in these phases."""
        spans = [self.span(phase) for phase in phases]
        return self.all.where(lambda each: any(start <= each.invoked_us < end for start, end in spans))

    def span(self, phase: str) -> tuple[int, int]:
        """When a phase began and the next one did, in microseconds."""
        at = next(at for at, each in enumerate(self.phases) if each.name == phase)
        end = self.phases[at + 1].at_us if at + 1 < len(self.phases) else 1 << 62
        return self.phases[at].at_us, end

    def shard_of(self, each: Record) -> int:
        """The shard that the client of a decision was in when the fleet started."""
        return self._shard(each.client)

    def of_rule(self, part: Part, rule: str) -> Part:
        place = next(at for at, each in enumerate(self.rules) if each.id == rule)
        return part.where(lambda each: each.rule == place)

    def of_shard(self, part: Part, *shards: int) -> Part:
        return part.where(lambda each: self._shard(each.client) in shards)

    def changed(self, state: str, shard: str, since_us: int) -> dict[int, float]:
        """Milliseconds from a moment until each gateway first held a shard to be `up` or `down`."""
        first: dict[int, float] = {}
        for each in self.changes:
            if each.state == state and each.shard == shard and each.at_us >= since_us:
                first.setdefault(each.gateway, (each.at_us - since_us) / 1000)
        return first

    def first_down(self, since_us: int) -> dict[int, float]:
        """Milliseconds from a moment until each gateway first held any shard to be down."""
        first: dict[int, float] = {}
        for each in self.changes:
            if each.state == "down" and each.at_us >= since_us:
                first.setdefault(each.gateway, (each.at_us - since_us) / 1000)
        return first

    def first_question(self, shard: int, since_us: int) -> dict[int, int]:
        """When each gateway first had something to ask a shard after a moment, in microseconds."""
        first: dict[int, int] = {}
        for each in self.of_shard(self.all, shard).found:
            if each.invoked_us >= since_us and each.source != "deny_cache":
                first.setdefault(each.gateway, each.invoked_us)
        return first

    def openings(self, shard: str, start_us: int = 0, end_us: int = 1 << 62) -> Counter[int]:
        """How often each gateway began to hold a shard to be down."""
        found = (
            e.gateway for e in self.changes if e.shard == shard and e.state == "down" and start_us <= e.at_us < end_us
        )
        return Counter(found)

    def connections(self, address: str, start_us: int = 0, end_us: int = 1 << 62) -> Counter[int]:
        """Attempts to connect to a server, by gateway."""
        found = (e.gateway for e in self.attempts if e.address == address and start_us <= e.at_us < end_us)
        return Counter(found)

    def checker(self, rule: str, part: Part | None = None) -> IntervalChecker:
        """All that was let through under a rule, against its limit."""
        at = next(at for at, each in enumerate(self.rules) if each.id == rule)
        checker = IntervalChecker(self.rules[at])
        for each in (part or self.all).found:
            if each.allowed and each.rule == at:
                checker.admitted(each.client, each.cost, each.invoked_us, each.completed_us)
        return checker

    def declared_tokens(self, rule: str) -> Fraction:
        """The most tokens beyond the limit, as the metric of the gateways says for a rule."""
        ratio = max(self._scrapes.values(BOUND, "end", rule=rule))
        return Fraction(ratio).limit_denominator(1000) * self._limit(rule).capacity

    def bound_tokens(self, rule: str) -> Fraction:
        """The same under the circumstances of this run, with what the bound says in words.

        That is what gateways have not told each other for a moment when they return; r · k/N while k of N gateways are
        cut off and the others are not, as at the return of a shard, from when the first has it until they all have it,
        and once more from when the first has settled until they all have; and parts of tokens.
        """
        declared, limit = self.declared_tokens(rule), self._limit(rule)
        bound = bound_of(next(each for each in self.rules if each.id == rule), self._gateways)
        assert bound is not None
        assert bound.tokens == declared, "the metric says what the rule says"
        apart_s = max(map(self.apart_s, {each.shard for each in self.changes}), default=0.0)
        return declared + bound.untold + 2 * Fraction(apart_s) * limit.refill_per_sec + ROUNDING

    def _limit(self, rule: str) -> Limit:
        limit = next(each.limit for each in self.rules if each.id == rule)
        assert isinstance(limit, Limit)
        return limit

    def apart_s(self, shard: str) -> float:
        """The seconds in which only some of the gateways had a shard, each weighed with the part that had not."""
        down: set[int] = set()
        total = 0.0
        changes = [each for each in self.changes if each.shard == shard]
        for change, after in zip(changes, [*changes[1:], None], strict=True):
            (down.add if change.state == "down" else down.discard)(change.gateway)
            until_us = change.at_us if after is None else after.at_us
            if len(down) < self._gateways:
                total += (until_us - change.at_us) / 1_000_000 * len(down) / self._gateways
        return total

    def metric(self, name: str, scrape: str = "end", **labels: str) -> float:
        """The sum over all gateways, and all series that have these labels."""
        return sum(self._scrapes.values(name, scrape, **labels))

    def no_accidents(self) -> None:
        """Nothing was raised, nobody was left without an answer, no rule that fails open refused with a 5xx."""
        assert self.unhandled == []
        assert [line for line in self.errors.splitlines() if any(word in line for word in WARNINGS)] == []
        assert self.all.reasons["raised"] == 0
        for rule in self.rules:
            if rule.on_failure == "open":
                assert self.of_rule(self.all, rule.id).statuses[503] == 0

    def late_ms(self, gateway: int, start_us: int, end_us: int) -> float:
        """How long the event loop of a gateway was late between two moments, in all."""
        return self._late[gateway].within(start_us, end_us) / 1000

    def stalls(self, start_us: int = 0, end_us: int = 1 << 62) -> int:
        """How often the machine gave a gateway no processor for so long that a breaker may open for less."""
        spans = [span for late in self._late.values() for span in late.spans]
        return sum(end - begin > STALL_US for begin, end in spans if start_us <= end < end_us)

    def longest_late_ms(self, gateway: int, start_us: int = 0, end_us: int = 1 << 62) -> float:
        """The longest that the event loop of a gateway was late at a time."""
        return self._late[gateway].longest(start_us, end_us) / 1000

    def _records(self) -> list[Record]:
        found = [
            each for told in self._told for each in records(Path(told.report["decisions"]).read_bytes(), told.gateway)
        ]
        found.sort()
        return found

    def _lateness(self) -> dict[int, Lateness]:
        late: dict[int, list[tuple[int, int]]] = {told.gateway: [] for told in self._told}
        for told in self._told:
            late[told.gateway] += told.report["late"]
        return {gateway: Lateness(found) for gateway, found in late.items()}

    def _all(self, what: str) -> Iterable[tuple[Any, ...]]:
        return [(*each, told.gateway) for told in self._told for each in told.report[what]]

    def _shard_anew(self, client: int) -> int:
        slot = slot_of(Names(None).key(f"client={self._prefix}{client}"))
        return max(0, bisect_right(self._shards, slot) - 1)
