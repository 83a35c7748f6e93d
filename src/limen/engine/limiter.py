"""The limiter for code that blocks: scripts, threads, WSGI."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from limen.core.decision import Decision
from limen.core.events import Observer
from limen.engine.clock import Clock, SystemClock
from limen.engine.conclude import conclude, conclude_one
from limen.engine.deciding import Deciding, as_ruleset, looking
from limen.engine.plan import Plan, plan_request
from limen.errors import SettingsError
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.stores.memory import DEFAULT_MAX_BUCKETS, MemoryStore

__all__ = ["Limiter"]


class Limiter(Deciding):
    """Rate limits in this process.

    Args:
        store: `memory://`. (For a store shared by many processes use `AsyncLimiter`.)
        rules: the rules in force; `use_rules` swaps them.
        clock: something with `now_us()`, such as `limen.testing.ManualClock()`; by default the monotonic clock.
        max_buckets: the most buckets that are remembered.
        observer: is told of every decision.

    Example:
        >>> from limen import Limiter, Rule
        >>> with Limiter(rules=[Rule("search", limit="2/minute")]) as limiter:
        ...     [limiter.check("acme", "search").allowed for _ in range(3)]
        [True, True, False]

    A denial is a value, never an exception. `UsageError` is raised for an unknown rule and for a cost that is not a
    whole number of tokens.
    """

    def __init__(
        self,
        store: str = "memory://",
        rules: Iterable[Rule] | RuleSet = (),
        *,
        clock: Clock | None = None,
        max_buckets: int = DEFAULT_MAX_BUCKETS,
        observer: Observer | None = None,
    ) -> None:
        if store != "memory://":
            raise SettingsError(f"Limiter keeps its buckets in memory:// and cannot use {store!r}; AsyncLimiter can")
        clock = clock or SystemClock()
        super().__init__(as_ruleset(rules), "memory", clock, 1, observer)
        self.store = MemoryStore(clock.now_us, max_buckets)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget all buckets."""
        self.store.close()

    def check(self, client: str, rule: str, cost: int = 1) -> Decision:
        """May `client` spend `cost` tokens under `rule` now? If so they are spent. A cost of 0 looks."""
        plain = self._plain.get(rule)
        if plain is None or self._observer is not None or type(cost) is not int or cost < 0:
            return self._decide(self._planned(client, rule, cost))
        found, limit = plain
        level = self.store.take_one(("client=" + client, rule), limit, cost * limit.token_ticks)
        return conclude_one(found, limit, cost, level, "memory")

    def check_request(self, request: Request) -> Decision:
        """May this request pass all the rules that apply to it? If so each is charged, else none."""
        return self._decide(plan_request(self._ruleset, request))

    def peek(self, client: str, rule: str, cost: int = 1) -> Decision:
        """What `check` would answer now; nothing is spent."""
        plan = self._planned(client, rule, cost)
        early = self._at_once(plan, self._now_us())
        return early or conclude(plan, self.store.take(looking(plan)), self._source, spend=False)

    def reset(self, client: str, rule: str | None = None) -> None:
        """Give `client` a full bucket under `rule`, or under every rule that is keyed by the client alone."""
        for identity, rule_id in self._buckets_of(client, rule):
            self.store.reset(identity, rule_id)

    def _decide(self, plan: Plan) -> Decision:
        asked_us = self._now_us() if self._observer else 0
        decision = self._at_once(plan, asked_us)
        if decision is None:
            decision = self._concluded(plan, self.store.take(plan.ops), asked_us)
        if self._observer is not None:
            self._observer.on_decision(decision, self._now_us() - asked_us)
        return decision
