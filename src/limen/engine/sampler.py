"""Which requests are remembered, so that a change of rules can be tried on them. Bounded; it decides nothing.

Two kinds of clients are remembered with all that they ask: a stable share of all (by a keyed rank, the same on every
gateway and after every start), each of whom stands for many, and those who ask most often, each for itself. Whoever is
limited is mostly among the second, and a share of the others alone would miss them. While there are no more clients
than places for such, all of them have one, so that of little traffic nothing is left out.

When what is remembered is too much, `share` gets smaller: fewer of both kinds, each of whom stands for more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import nlargest
from itertools import chain
from typing import NamedTuple

from limen.core.decision import Decision
from limen.rules.client_ip import prefix_key
from limen.rules.request import NO_HEADERS, Request

__all__ = ["Heard", "Sampler"]

PLACES = 2_000
MOST_KNOWN = 25_000
MOST_HEARD = 50_000
SMALLEST_SHARE = 1 / 1024

_new = tuple.__new__
"""Makes a named tuple in half the time."""


class Heard(NamedTuple):
    """A request that is remembered."""

    at_us: int
    """Microseconds since 1970."""
    request: Request
    rule: str | None
    """The rule, when it was asked by its name; then the client is all there is of the request."""
    cost: int | None
    weight: float
    """How many requests it stands for."""


class _Client:
    """Somebody who asks."""

    __slots__ = ("count", "heavy", "rank", "weight")

    def __init__(self, rank: float) -> None:
        self.rank = rank
        self.count = 0
        self.heavy = False
        self.weight = 0.0
        """What each request stands for; 0: it is not remembered."""


class Sampler:
    """Remembers requests until somebody takes them. For one event loop.

    Args:
        rank: places a client between 0 and 1, always in the same place.
        epoch_us: microseconds since 1970.
        percent: of the clients, how many are remembered beside those who ask most; above 0.
        places: how many of those.
        most: how many requests are remembered between two times that they are taken.

    Attributes:
        share: which part of both kinds is remembered, 1 or less.
        headers: the names of headers that are remembered.
        heard_total, dropped_total: requests that were remembered, and that there was no room for.
        failed_total: of those remembered, how many could not be kept by whoever took them.
    """

    def __init__(
        self,
        rank: Callable[[str], float],
        epoch_us: Callable[[], int],
        percent: float,
        places: int = PLACES,
        most: int = MOST_HEARD,
    ) -> None:
        self.share = 1.0
        self.headers: Collection[str] = ()
        self.heard_total = self.dropped_total = self.failed_total = 0
        self._rank = rank
        self._epoch_us = epoch_us
        self._part = percent / 100
        self._places = places
        self._most = most
        self._clients: dict[str, _Client] = {}
        self._before: dict[str, _Client] = {}
        self._heavy = 0
        self._heard: list[Heard] = []

    def asked(self, request: Request, decision: Decision) -> None:
        """A request was decided. One that no rule decided, for an operator had spoken, says nothing of rules."""
        weight = self._weight(request[3] or request[5] or prefix_key(request[6]))
        if weight and decision.standing is None:
            if self.headers:
                kept = {name: request.headers[name] for name in self.headers if name in request.headers}
                request = request._replace(headers=kept or NO_HEADERS)
            elif request[7] is not NO_HEADERS:
                request = _new(Request, (*request[:7], NO_HEADERS))
            self._hear(_new(Heard, (self._epoch_us(), request, None, None, weight)))

    def named(self, client: str, rule: str, cost: int, decision: Decision) -> None:
        """The same for a check by name."""
        weight = self._weight(client)
        if weight and decision.standing is None:
            request = _new(Request, ("GET", "/", "", client, None, None, None, NO_HEADERS))
            self._hear(_new(Heard, (self._epoch_us(), request, rule, cost, weight)))

    def take(self) -> list[Heard]:
        """What was remembered since the last time."""
        heard, self._heard = self._heard, []
        return heard

    def rank_anew(self, share: float) -> None:
        """Find out who asks most often now. May run in another thread; takes some milliseconds at most.

        Args:
            share: which part of all that could be remembered is remembered from now on.
        """
        self.share = max(SMALLEST_SHARE, min(1.0, share))
        known = list(chain(self._clients.copy().values(), self._before.copy().values()))
        heaviest = set(map(id, nlargest(self._places, known, key=lambda client: client.count)))
        for client in known:
            client.heavy = id(client) in heaviest
            client.weight = self._weighed(client)
            client.count >>= 1
        self._heavy = len(heaviest)

    def _weight(self, name: str) -> float:
        client = self._clients.get(name) or self._meet(name)
        client.count += 1
        return client.weight

    def _meet(self, name: str) -> _Client:
        """Somebody new, or not seen for long. Those who come once are forgotten as they came, with no walk over all."""
        if len(self._clients) >= MOST_KNOWN:
            self._before, self._clients = self._clients, {}
            self._heavy = 0
        client = self._before.pop(name, None) or _Client(self._rank(name))
        if client.heavy or self._heavy < self._places:
            client.heavy = True
            self._heavy += 1
        client.weight = self._weighed(client)
        self._clients[name] = client
        return client

    def _weighed(self, client: _Client) -> float:
        part = self.share if client.heavy else self.share * self._part
        return 1 / part if client.rank < part else 0.0

    def _hear(self, heard: Heard) -> None:
        if len(self._heard) < self._most:
            self._heard.append(heard)
            self.heard_total += 1
        else:
            self.dropped_total += 1
