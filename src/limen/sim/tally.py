"""What is counted while requests are replayed, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from limen.core.decision import Decision
from limen.rules.client_ip import prefix_key
from limen.rules.request import Request
from limen.sim.player import Known
from limen.sim.record import Record
from limen.sim.timeline import Timeline

__all__ = ["ClientCount", "RuleCount", "Tally"]

MOST_CLIENTS = 1_000_000
NOBODY = "-"


class RuleCount:
    """One rule."""

    __slots__ = (
        "candidate_allowed",
        "candidate_denied",
        "clients",
        "denied",
        "first_us",
        "last_us",
        "shadow",
        "shadow_clients",
    )

    def __init__(self) -> None:
        self.denied = 0
        self.shadow = 0
        """What it would have denied, if it were no shadow."""
        self.clients = Counter[str]()
        """Who was denied how often."""
        self.shadow_clients: set[str] = set()
        self.candidate_denied = 0
        """What the limit in force allowed, and the candidate beside it would have denied."""
        self.candidate_allowed = 0
        """The other way round."""
        self.first_us: int | None = None
        self.last_us: int | None = None


class ClientCount(NamedTuple):
    """One client, and how often it was denied."""

    client: str
    requests: int
    denied: int
    rules: tuple[str, ...]
    """The rules that denied it, that which did it most often first."""


class Tally:
    """Counts.

    Attributes:
        requests, denied: how many.
        clients: how often each came: of very many those that came more than once.
        forgotten: whether some that came once were forgotten.
        applied: by rule, how many requests it applied to.
        rules: by rule, what came of it.
        methods_and_paths: by what was asked, how often that was denied.
        timeline: requests and denials along time.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.denied = 0
        self.clients = Counter[str]()
        self.forgotten = False
        self.applied = Counter[str]()
        self.rules: dict[str, RuleCount] = {}
        self.paths = Counter[str]()
        self.timeline = Timeline()
        self.first_us: int | None = None
        self.last_us: int | None = None

    def came(self, batch: Sequence[Record]) -> None:
        """Requests came, in the order of time."""
        if not batch:
            return
        self.requests += len(batch)
        self.first_us = batch[0][0] if self.first_us is None else min(self.first_us, batch[0][0])
        self.last_us = max(self.last_us or 0, batch[-1][0])
        asked = Counter([(request[3] or request[5], request[6]) for _, request in batch])  # client, user, ip
        for (client, ip), count in asked.items():
            self.clients[name_of(client, ip)] += count
        self.timeline.came([at_us for at_us, _ in batch])
        if len(self.clients) > MOST_CLIENTS:
            self.forgotten = True
            self.clients = _frequent(self.clients)

    def decided(self, at_us: int, request: Request, decision: Decision) -> None:
        """A request was denied, or would have been by a rule in shadow mode, or a candidate was asked."""
        who = name_of(request.client or request.user, request.ip)
        for rule in decision.shadow:
            count = self._rule(rule)
            count.shadow += 1
            if len(count.shadow_clients) < MOST_CLIENTS:
                count.shadow_clients.add(who)
        for rule, live, candidate in decision.candidates:
            self._rule(rule).candidate_denied += live and not candidate
            self._rule(rule).candidate_allowed += candidate and not live
        if decision.allowed or decision.rule is None:
            return
        self.denied += 1
        self.timeline.denied(at_us, decision.rule)
        self.paths[f"{request.method} {request.path.partition('?')[0]}"] += 1
        self._note(self._rule(decision.rule), at_us, who)
        if len(self.paths) > MOST_CLIENTS:
            self.paths = _frequent(self.paths)

    def known(self, known: Known) -> None:
        """So many requests met these rules."""
        for rule in known.ids:
            self.applied[rule] += known.count
        known.count = 0

    def most_denied(self, most: int) -> list[ClientCount]:
        """Who was denied most often."""
        denied = Counter[str]()
        for count in self.rules.values():
            denied.update(count.clients)
        return [self._client(who, times) for who, times in sorted(denied.items(), key=_most_first)[:most]]

    @property
    def clients_denied(self) -> int:
        """How many different ones were denied."""
        return len({who for count in self.rules.values() for who in count.clients})

    def _client(self, who: str, denied: int) -> ClientCount:
        by_rule = [(count.clients[who], rule) for rule, count in self.rules.items() if count.clients[who]]
        return ClientCount(who, self.clients[who], denied, tuple(rule for _, rule in sorted(by_rule, reverse=True)))

    def _rule(self, rule: str) -> RuleCount:
        return self.rules.setdefault(rule, RuleCount())

    @staticmethod
    def _note(count: RuleCount, at_us: int, who: str) -> None:
        count.denied += 1
        count.clients[who] += 1
        count.first_us = at_us if count.first_us is None else count.first_us
        count.last_us = at_us
        if len(count.clients) > MOST_CLIENTS:
            count.clients = _frequent(count.clients)


def name_of(client: str | None, ip: str | None) -> str:
    """Who a client is for people: its name, else its address (of IPv6 the /64)."""
    if client or not ip:
        return client or NOBODY
    return prefix_key(ip) if ":" in ip else ip


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _frequent(counted: Counter[str]) -> Counter[str]:
    """Those that came more than once; of too many still, those that came most."""
    kept: Iterable[tuple[str, int]] = [item for item in counted.items() if item[1] > 1]
    return Counter(dict(sorted(kept, key=_most_first)[: MOST_CLIENTS // 2]))
