"""The traffic sample of one process: what it remembers of its requests, it leaves in the rules database."""

from __future__ import annotations

import asyncio
import logging
import time
from weakref import ref

from limen.admin.background import in_background
from limen.admin.repeating import Repeating
from limen.admin.samples import Samples
from limen.apps.seldom import Seldom
from limen.engine.sampled import SampledLimiter
from limen.engine.sampler import Sampler
from limen.errors import LimenError
from limen.rules.ruleset import RuleSet
from limen.sim.blind import literals_of
from limen.sim.budget import Budget
from limen.sim.chunk import encode
from limen.sim.fields import headers_of
from limen.sim.pseudonyms import Pseudonyms

__all__ = ["Sampling", "sampler_for"]

log = logging.getLogger("limen")

JITTER = 0.2
MOST_INTERVAL_S = 10.0


def sampler_for(pseudonyms: Pseudonyms, percent: float) -> Sampler:
    """A sampler that chooses the same clients in every process with that secret."""
    return Sampler(pseudonyms.rank, lambda: time.time_ns() // 1000, percent)


class Sampling(Repeating):
    """Takes what a sampler has remembered and leaves it in the database, every ten seconds and in another thread.

    What cannot be left is dropped and counted: no decision ever waits for it.

    Args:
        limiter: whose requests are sampled.
        samples: where they are left.
        gateway: of whom they are.
        pseudonyms: under which names.
        keep_s: how long they are kept.
        interval_s: how often they are left, give or take a fifth.
    """

    def __init__(
        self,
        limiter: SampledLimiter,
        samples: Samples,
        gateway: str,
        pseudonyms: Pseudonyms,
        keep_s: float,
        interval_s: float = MOST_INTERVAL_S,
    ) -> None:
        super().__init__(JITTER)
        self._limiter = limiter
        self._samples = samples
        self._gateway = gateway
        self._pseudonyms = pseudonyms
        self._keep_s = keep_s
        self._interval_s = min(interval_s, MOST_INTERVAL_S)
        self._budget = Budget()
        self._ruleset: ref[RuleSet] | None = None
        self._literals: dict[str, frozenset[str]] = {}
        self._dropped = 0
        self._words = Seldom(log)

    async def once(self) -> None:
        await self._follow_rules()
        sampler, budget = self._limiter.sampler, self._budget
        heard, lost = sampler.take(), sampler.dropped_total > self._dropped
        self._dropped = sampler.dropped_total
        try:
            if heard:
                chunk, rows = await asyncio.to_thread(encode, heard, self._pseudonyms, self._literals)
                if budget.spend(len(chunk), time.monotonic(), self._interval_s, lost):
                    await self._samples.put(self._gateway, chunk, rows, self._keep_s)
                else:
                    sampler.failed_total += len(heard)
            await asyncio.to_thread(sampler.rank_anew, budget.share)
        except Exception as error:  # noqa: BLE001 - whatever a database answers, a process goes on deciding
            sampler.failed_total += len(heard)
            self._complain(error)
        else:
            self._words.over("sample", "traffic is sampled again")

    def pause_s(self) -> float:
        return self._interval_s

    async def _follow_rules(self) -> None:
        """Of headers only what the rules in force look at is remembered."""
        ruleset = self._limiter.ruleset
        if self._ruleset is None or self._ruleset() is not ruleset:
            self._ruleset = ref(ruleset)  # an old set is not kept longer than needed
            self._limiter.sampler.headers = await in_background(headers_of, ruleset.rules)
            self._literals = await in_background(literals_of, ruleset.rules)

    def _complain(self, error: Exception) -> None:
        trace = None if isinstance(error, LimenError) else error
        self._words.warning(
            "sample", f"traffic is not sampled, so changes of rules cannot be tried on it: {error}", trace
        )
