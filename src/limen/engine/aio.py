"""The limiter for coroutines: one shared store, many gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, cast

from limen.core.decision import Decision, Source
from limen.core.delays import Delays
from limen.core.events import Observer
from limen.engine.async_slot import AsyncSlot, Departures
from limen.engine.borrowing import AsyncBorrowing
from limen.engine.clock import Clock, SystemClock
from limen.engine.conclude import conclude
from limen.engine.deciding import Deciding, Question, as_ruleset, looking, payment_us, with_cost
from limen.engine.explain import Explanation
from limen.engine.freshness import Freshness
from limen.engine.lease import Lease
from limen.engine.local_slots import LocalSlots, new_holder
from limen.engine.open_store import open_store
from limen.engine.plan import Plan, plan_request, without_candidates
from limen.engine.sources import RuleSource, rule_source
from limen.engine.tending import Tending
from limen.errors import StoreError
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.stores.base import AsyncSharedStore, AsyncStore, Op

__all__ = ["AsyncLimiter"]

AT_ONCE = 64


class AsyncLimiter(Deciding):
    """Rate limits shared by every process that uses the same store.

    Args:
        store: `memory://`, `valkey://[user:password@]host:port/db`, `valkeys://…` for TLS; `redis` spellings too. Or
            a store of your own, which the limiter starts and closes.
        rules: rules, a `RuleSet`, or where they are kept: `file:///rules.yaml`, `sqlite:///limen.db`,
            `postgresql://…`. Those are watched and swapped in when they change.
        clock: for everything local (memory store, deny cache, local shares); by default the monotonic clock.
        secret: keys the hash under which clients are known in the store; the same in every process. Without one the
            hash is still one-way, but whoever reads the store can try names.
        previous_secret: the secret before it, while it is being replaced: buckets are then kept under both.
        gateways: how many processes decide at least; each gets its part of a limit while the store is away. They
            count themselves in the store, so more are noticed.
        deadline_ms: the longest that a decision waits for the store.
        observer: is told of every decision.

    Use it as `async with AsyncLimiter(...) as limiter:`. Entering succeeds when the store is away: decisions are
    then `degraded` until it comes. A denial is a value, never an exception; `UsageError` is raised for an unknown
    rule and for a cost that is not a whole number of tokens.
    """

    def __init__(
        self,
        store: str | AsyncStore = "memory://",
        rules: Iterable[Rule] | RuleSet | str = (),
        *,
        clock: Clock | None = None,
        secret: str | bytes | None = None,
        previous_secret: str | bytes | None = None,
        gateways: int = 1,
        deadline_ms: float = 5.0,
        observer: Observer | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._store = open_store(store, clock, secret, deadline_ms, previous_secret)
        self._rules_source: RuleSource | None = None
        if isinstance(rules, str):
            self._rules_source = rule_source(rules, self.use_rules, self.looked, self.use_standing)
        ruleset = RuleSet() if isinstance(rules, str) else as_ruleset(rules)
        source: Source = "memory" if self._store.state == "memory" else "store"
        super().__init__(ruleset, source, clock, gateways, observer)
        self._payment_us = payment_us(deadline_ms)
        self._local_slots = LocalSlots(self._now_us, source, self.fleet, observer)
        self._departures = Departures()
        self._tending = Tending(self._store, self._debts, self._shares, self.fleet)
        self._freshness = Freshness(self._now_us)
        self._borrowing = AsyncBorrowing(
            self._leases, lambda question: cast(AsyncSharedStore, self._store).borrow(question)
        )
        if source == "store" and hasattr(self._store, "borrow"):
            self._leases.begin(ruleset)
        self._can_settle = source == "store" and hasattr(self._store, "charge")
        if hasattr(self._store, "on_return"):
            self._store.on_return = self._store_returned

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def store_state(self) -> str:
        """`up`, `down`, or `memory` when there is nothing that could be down."""
        return self._store.state

    @property
    def store_shards(self) -> Mapping[str, str]:
        """Each server of the store, as `host:port`, and whether it is `up` or `down`."""
        shards: Mapping[str, str] = getattr(self._store, "shards", {})
        return shards

    @property
    def store_delays(self) -> Mapping[str, Delays]:
        """How long each of them took to answer."""
        delays: Mapping[str, Delays] = getattr(self._store, "delays", {})
        return delays

    @property
    def memory_lost(self) -> Mapping[str, int]:
        """How often each of them was found to have forgotten its buckets."""
        lost: Mapping[str, int] = getattr(self._store, "memory_lost", {})
        return lost

    def follow(self, refresh: Callable[[], Awaitable[None]], every_s: float) -> None:
        """Have the rules read anew by `refresh` before a decision, when nobody has `looked` for them for much longer
        than `every_s`: this process was stopped, and its rules may be those of another time."""
        self._freshness.follow(refresh, every_s)

    def looked(self) -> None:
        """Somebody has looked for other rules, or has tried to."""
        self._freshness.looked()

    async def start(self) -> None:
        """Connect to the store, as far as it is there, and load the rules.

        Raises:
            RuleError, RulesUnavailable: the rules cannot be read and there are none to begin with.
        """
        await self._store.start()
        if self._rules_source is not None:
            await self._rules_source.start()
            self.follow(self._rules_source.refresh, self._rules_source.every_s)
        self._tending.start()

    async def close(self) -> None:
        """Stop watching rules and hang up."""
        if self._rules_source is not None:
            await self._rules_source.stop()
        self._freshness.stop()
        await self._borrowing.finish()
        await self._tending.stop()
        await self._departures.finish()
        await self._store.close()

    async def check(self, client: str, rule: str, cost: int = 1) -> Decision:
        """May `client` spend `cost` tokens under `rule` now? If so they are spent. A cost of 0 looks."""
        if self._freshness.in_doubt:
            await self._freshness.restored()
        if self._denied.entries:
            refusal = self._refused_just_now(client, rule, cost)
            if refusal is not None:
                return refusal
        return await self._decide(self._planned(client, rule, cost))

    async def check_request(self, request: Request) -> Decision:
        """May this request pass all the rules that apply to it? If so each is charged, else none."""
        if self._freshness.in_doubt:
            await self._freshness.restored()
        if self._applied is not None:
            return await self._decide(self._planned_request(request))
        return await self._decide(plan_request(self._ruleset, request))

    async def peek(self, client: str, rule: str, cost: int = 1) -> Decision:
        """What `check` would answer now; nothing is spent."""
        plan = self._planned(client, rule, cost)
        now_us = self._now_us()
        early = self._at_once(plan, now_us)
        if early is not None:
            return early
        try:
            seen = await self._store.take(looking(plan))
        except StoreError as error:
            return self._without_store(plan, error, now_us, spend=False)
        return conclude(plan, seen, self._source, spend=False)

    async def explain(self, request: Request) -> Explanation:
        """Why `check_request` would answer what it would answer now, rule by rule; nothing is spent."""
        plan, now_us = self._explainable(request), self._now_us()
        try:
            self._drill.check(plan.ops, now_us)
            return self._explained(request, plan, await self._store.take(plan.ops) if plan.ops else (), now_us)
        except StoreError as error:
            return self._explained_without_store(request, plan, error, now_us)

    async def check_many(self, questions: Iterable[Question]) -> list[Decision]:
        """`check` for each of (client, rule) or (client, rule, cost), in their order; each is decided for itself. They
        are asked 64 at a time: what is asked at once must be answered within one deadline.

        Raises:
            UsageError: one of them makes no sense; then none was spent.
        """
        plans = [self._planned(*with_cost(question)) for question in questions]
        decisions: list[Decision] = []
        for at in range(0, len(plans), AT_ONCE):
            decisions += await asyncio.gather(*map(self._decide, plans[at : at + AT_ONCE]))
        return decisions

    async def grant(self, client: str, rule: str, tokens: int, seconds: float = 3600.0) -> Decision:
        """Let `client` spend `tokens` more under `rule` until `seconds` from now; what it has now.

        They are spent after the bucket's own. Grants add up and last until the latest end. A single cost above the
        capacity stays impossible.

        Raises:
            StoreError: the store did not answer; they may have been granted.
        """
        plan = self._grant_plan(client, rule, tokens, seconds)
        op = plan.ops[0]
        try:
            seen = [await self._store.grant(each, tokens, round(seconds * 1_000_000)) for each in plan.ops]
        finally:
            self._forget(op.identity, op.rule)
        return conclude(without_candidates(plan), seen[:1], self._source, spend=False)

    async def reset(self, client: str, rule: str | None = None) -> None:
        """Give `client` a full bucket under `rule`, or under every rule that is keyed by the client alone.

        Raises:
            StoreError: the store did not answer; the buckets may be as they were.
        """
        for identity, rule_id, colocate in self._buckets_of(client, rule):
            try:
                await self._store.reset(identity, rule_id, colocate)
            finally:
                self._forget(identity, rule_id)  # last: a refusal that was under way meanwhile must not outlive it

    def slot(self, client: str, rule: str) -> AsyncSlot:
        """A slot of a concurrency limit, asked for when its block begins and let go when it ends:

            async with limiter.slot("acme", "exports") as slot:
                if slot.allowed: ...

        Raises:
            UsageError: an unknown rule, or one that does not limit how many run at a time.
        """
        plan = self._planned_slot(client, rule, new_holder())
        return AsyncSlot(plan, self._local_slots, self._store, self._departures)

    async def _decide(self, plan: Plan) -> Decision:
        asked_us = self._now_us()
        decision = self._leased(plan, asked_us) if self._leases.held else None
        if decision is None:
            decision = self._at_once(plan, asked_us)
        if decision is None:
            try:
                if self._debts.entries or self._drill.running:
                    await self._before_asking(plan.ops, asked_us)
                if self._denied.entries:
                    self._goes_to_store(plan.ops, asked_us)
                seen = await self._store.take(plan.ops)
            except StoreError as error:
                decision = self._without_store(plan, error, asked_us)
            else:
                atomic = len(plan.ops) == 1 or self._store.atomic(plan.ops)
                decision = self._concluded(plan, seen, asked_us, atomic)
        if self._observer is not None:
            self._observer.on_decision(decision, self._now_us() - asked_us)
        if self._leases.terms:
            self._borrow(self._leases.noted(plan, decision))
        return decision

    def _borrow(self, asked: Sequence[Lease]) -> None:
        if asked:
            self._borrowing.begin(asked)

    async def _before_asking(self, ops: Sequence[Op], now_us: int) -> None:
        """Pay what is owed to these buckets.

        Raises:
            StoreError: the store does not answer, or that is rehearsed.
        """
        if self._drill.running:
            self._drill.check(ops, now_us)
        while (debt := self._debts.due(ops)) is not None:
            await self._tending.settle(debt)
            self._in_time(now_us)
        if self._debts.entries:
            self._settled(ops)
