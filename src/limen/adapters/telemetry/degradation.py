"""Which rules are decided without the store just now, since when, and what the log says of it.

A rule is degraded while decisions about some of its clients are made without the store. With several shards, or in a
drill, others are exact meanwhile, so one exact decision ends nothing: it ends when the store is all there again, or
when nothing was decided without it for ten seconds.

The log gets a line when it begins and one when it is over; of a rule that comes and goes no more than one of each in a
minute, and many rules share a line. Lines are written by `look`, never on the path of a request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

__all__ = ["Degradation"]

log = logging.getLogger("limen")

QUIET_S = 10.0
"""After so long without a decision of that kind it is over, though a shard is still away."""
EVERY_S = 60.0
NAMED = 5
"""As many rules are named in a line."""


class Episode:
    """A rule, from its first decision without the store on."""

    __slots__ = ("decisions", "exact", "last_s", "refused", "since_s", "told")

    def __init__(self, since_s: float) -> None:
        self.since_s = self.last_s = since_s
        self.decisions = 0
        self.refused = 0
        """Of them, those that were answered with 503."""
        self.exact = False
        """Whether the last decision was made by the store again."""
        self.told = False
        """Whether the log has a line about its beginning."""


class Away:
    """A shard that does not decide."""

    __slots__ = ("since_s", "unanswered")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.unanswered = 0


class Degradation:
    """Rules and shards, and what was told of them.

    Args:
        now_s: a clock in seconds that never goes back.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.rules: dict[str, Episode] = {}
        """Those that are degraded."""
        self._now_s = now_s
        self._away: dict[str, Away] = {}
        self._told_s: dict[tuple[str, str], float] = {}

    def without_store(self, rule: str, refused: bool) -> None:
        """A decision about a rule was made without the store."""
        now_s = self._now_s()
        episode = self.rules.get(rule) or self.rules.setdefault(rule, Episode(now_s))
        episode.last_s, episode.exact = now_s, False
        episode.decisions += 1
        episode.refused += refused

    def with_store(self, rule: str) -> None:
        """One was made with it again."""
        episode = self.rules.get(rule)
        if episode is not None:
            episode.exact = True

    def unanswered(self, shard: str) -> None:
        """A shard did not answer."""
        away = self._away.get(shard)
        if away is not None:
            away.unanswered += 1

    def look(self, shards: Mapping[str, str], drilling: bool = False) -> None:
        """See what has begun and what is over, and tell.

        Args:
            shards: `up` or `down`, by name; empty when that is not known.
            drilling: whether an outage is rehearsed.
        """
        now_s = self._now_s()
        down = drilling or "down" in shards.values()
        over = {rule: each for rule, each in list(self.rules.items()) if _is_over(each, down, now_s)}
        for rule in over:
            del self.rules[rule]
        self._tell_begun([rule for rule, each in list(self.rules.items()) if not each.told], now_s)
        self._tell_over(over, now_s)
        self._see(shards, now_s)

    def forget_others(self, rules: Iterable[str]) -> None:
        """Only these rules are in force."""
        for rule in self.rules.keys() - set(rules):
            self.rules.pop(rule, None)
        self._told_s = {key: told_s for key, told_s in self._told_s.items() if told_s > self._now_s() - EVERY_S}

    def _tell_begun(self, rules: list[str], now_s: float) -> None:
        news = [rule for rule in rules if self._may_tell("rule", rule, now_s)]
        for rule in news:
            self.rules[rule].told = True
        if news:
            log.warning("decided without the store now: %s", _listed(news, "rule"))

    def _tell_over(self, over: Mapping[str, Episode], now_s: float) -> None:
        news = {rule: each for rule, each in over.items() if each.told}
        if not news:
            return
        lasted_s = now_s - min(each.since_s for each in news.values())
        decisions = sum(each.decisions for each in news.values())
        refused = sum(each.refused for each in news.values())
        log.warning(
            "decided with the store again: %s, after %.1f s; %d decisions were made without it, %d of them 503",
            _listed(list(news), "rule"), lasted_s, decisions, refused,
        )  # fmt: skip

    def _see(self, shards: Mapping[str, str], now_s: float) -> None:
        for shard, state in shards.items():
            if state == "down":
                self._away.setdefault(shard, Away(now_s))
            elif shard in self._away:
                self._tell_back(shard, self._away.pop(shard), now_s)
        for shard in self._away.keys() - shards.keys():
            del self._away[shard]

    def _tell_back(self, shard: str, away: Away, now_s: float) -> None:
        if self._may_tell("shard", shard, now_s):
            lasted_s = now_s - away.since_s
            log.warning("%s decides again after %.1f s; %d questions were not asked or answered", shard, lasted_s,
                        away.unanswered)  # fmt: skip

    def _may_tell(self, kind: str, name: str, now_s: float) -> bool:
        """Whether the last line about it is a minute old. If so there is one now."""
        if now_s - self._told_s.get((kind, name), -EVERY_S) < EVERY_S:
            return False
        self._told_s[kind, name] = now_s
        return True


def _is_over(episode: Episode, down: bool, now_s: float) -> bool:
    quiet = now_s - episode.last_s > QUIET_S
    return (episode.exact and quiet) if down else (episode.exact or quiet)


def _listed(names: list[str], what: str) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names[:NAMED])}{more}"
