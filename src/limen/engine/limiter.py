"""The limiter for code that blocks: scripts, threads, WSGI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, cast

from limen.core.algorithm import Seen
from limen.core.decision import Decision, Source
from limen.core.delays import Delays
from limen.core.events import Observer
from limen.engine.blocking_slot import BlockingSlot
from limen.engine.blocking_tending import BlockingTending
from limen.engine.borrowing import borrow_each
from limen.engine.clock import Clock, SystemClock
from limen.engine.conclude import conclude, conclude_one
from limen.engine.deciding import Deciding, Question, as_ruleset, looking, payment_us, with_cost
from limen.engine.explain import Explanation
from limen.engine.lease import Lease
from limen.engine.local_slots import LocalSlots, new_holder
from limen.engine.open_sync import open_sync_store
from limen.engine.plan import Plan, plan_request, without_candidates
from limen.errors import StoreError
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.stores.base import Op, SharedStore, Store
from limen.stores.memory import DEFAULT_MAX_BUCKETS, MemoryStore

__all__ = ["Limiter"]

DEFAULT_MAX_CONNECTIONS = 16
AT_ONCE = 64

TakeEach = Callable[[Sequence[Sequence[Op]]], Sequence[Sequence[Seen] | StoreError]]


class Limiter(Deciding):
    """Rate limits for code that blocks: in this process, or shared by every process that uses the same store.

    Args:
        store: `memory://`, `valkey://[user:password@]host:port/db`, `valkeys://…` for TLS, `valkey+cluster://h1,h2`,
            `valkey+sentinel://h1,h2/name`; `redis` spellings too. Or a store of your own, which the limiter starts and
            closes.
        rules: the rules in force; `use_rules` swaps them.
        clock: something with `now_us()`, such as `limen.testing.ManualClock()`, for everything local; by default the
            monotonic clock.
        secret: keys the hash under which clients are known in the store; the same in every process.
        previous_secret: the secret before it, while it is being replaced: buckets are then kept under both.
        gateways: how many processes decide at least; each gets its part of a limit while the store is away. They
            count themselves in the store, so more are noticed.
        deadline_ms: the longest that a decision waits for the store, and for a connection to it.
        max_connections: the most connections to one server; threads beyond them wait for one within the deadline.
        max_buckets: the most buckets that `memory://` remembers.
        observer: is told of every decision.

    Example:
        >>> from limen import Limiter, Rule
        >>> with Limiter(rules=[Rule("search", limit="2/minute")]) as limiter:
        ...     [limiter.check("acme", "search").allowed for _ in range(3)]
        [True, True, False]

    One limiter serves all threads. It may be made, and used, before a process forks: each child connects anew.
    Without `with` or `start` the first call connects, and waits for that as they do: a second at most.

    A denial is a value, never an exception. `UsageError` is raised for an unknown rule and for a cost that is not a
    whole number of tokens. When the store is away, decisions are `degraded`.
    """

    def __init__(
        self,
        store: str | Store = "memory://",
        rules: Iterable[Rule] | RuleSet = (),
        *,
        clock: Clock | None = None,
        secret: str | bytes | None = None,
        previous_secret: str | bytes | None = None,
        gateways: int = 1,
        deadline_ms: float = 5.0,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        max_buckets: int = DEFAULT_MAX_BUCKETS,
        observer: Observer | None = None,
    ) -> None:
        clock = clock or SystemClock()
        names = secret, previous_secret
        self.store: Store = open_sync_store(store, clock, names, deadline_ms, max_connections, max_buckets)
        source: Source = "memory" if isinstance(self.store, MemoryStore) else "store"
        super().__init__(as_ruleset(rules), source, clock, gateways, observer)
        self._local_slots = LocalSlots(self._now_us, source, self.fleet, observer)
        self._tending = BlockingTending(self.store, self._debts, self._shares, self.fleet, self._now_us)
        self._payment_us = payment_us(deadline_ms)
        self._can_settle = source == "store" and hasattr(self.store, "charge")
        if source == "store" and hasattr(self.store, "borrow"):
            self._leases.begin(self._ruleset)
        if hasattr(self.store, "on_return"):
            self.store.on_return = self._store_returned

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def store_state(self) -> str:
        """`up`, `down`, or `memory` when there is nothing that could be down."""
        return self.store.state

    @property
    def store_shards(self) -> Mapping[str, str]:
        """Each server of the store, as `host:port`, and whether it is `up` or `down`."""
        shards: Mapping[str, str] = getattr(self.store, "shards", {})
        return shards

    @property
    def store_delays(self) -> Mapping[str, Delays]:
        """How long each of them took to answer."""
        delays: Mapping[str, Delays] = getattr(self.store, "delays", {})
        return delays

    @property
    def memory_lost(self) -> Mapping[str, int]:
        """How often each of them was found to have forgotten its buckets."""
        lost: Mapping[str, int] = getattr(self.store, "memory_lost", {})
        return lost

    def start(self) -> None:
        """Connect to the store; returns when it answers, or after a second, for it may be away."""
        self.store.start()

    def close(self) -> None:
        """Hang up. `memory://` forgets all buckets."""
        self._borrow(self._leases.finish())
        self._tending.stop()
        self.store.close()

    def check(self, client: str, rule: str, cost: int = 1) -> Decision:
        """May `client` spend `cost` tokens under `rule` now? If so they are spent. A cost of 0 looks."""
        store = self.store
        if type(store) is not MemoryStore or self._observer is not None:
            return self._checked(client, rule, cost)
        plain = self._plain.get(rule)
        applied = self._applied
        if plain is None or type(cost) is not int or cost < 0 or (applied is not None and applied.knows(client)):
            return self._decide(self._planned(client, rule, cost))
        found, limit = plain
        level = store.take_one(("client=" + client, rule), limit, cost * limit.token_ticks)
        return conclude_one(found, limit, cost, level, "memory")

    def check_request(self, request: Request) -> Decision:
        """May this request pass all the rules that apply to it? If so each is charged, else none."""
        if self._applied is not None:
            return self._decide(self._planned_request(request))
        return self._decide(plan_request(self._ruleset, request))

    def peek(self, client: str, rule: str, cost: int = 1) -> Decision:
        """What `check` would answer now; nothing is spent."""
        plan = self._planned(client, rule, cost)
        now_us = self._now_us()
        early = self._at_once(plan, now_us)
        if early is not None:
            return early
        try:
            seen = self.store.take(looking(plan))
        except StoreError as error:
            return self._without_store(plan, error, now_us, spend=False)
        return conclude(plan, seen, self._source, spend=False)

    def explain(self, request: Request) -> Explanation:
        """Why `check_request` would answer what it would answer now, rule by rule; nothing is spent."""
        plan, now_us = self._explainable(request), self._now_us()
        try:
            self._drill.check(plan.ops, now_us)
            return self._explained(request, plan, self.store.take(plan.ops) if plan.ops else (), now_us)
        except StoreError as error:
            return self._explained_without_store(request, plan, error, now_us)

    def check_many(self, questions: Iterable[Question]) -> list[Decision]:
        """`check` for each of (client, rule) or (client, rule, cost), in their order; each is decided for itself.

        Raises:
            UsageError: one of them makes no sense; then none was spent.
        """
        plans = [self._planned(*with_cost(question)) for question in questions]
        take_each = getattr(self.store, "take_each", None)
        if take_each is None:
            return [self._decide(plan) for plan in plans]
        decisions: list[Decision] = []
        for at in range(0, len(plans), AT_ONCE):
            decisions += self._decide_each(plans[at : at + AT_ONCE], take_each)
        return decisions

    def grant(self, client: str, rule: str, tokens: int, seconds: float = 3600.0) -> Decision:
        """Let `client` spend `tokens` more under `rule` until `seconds` from now; what it has now.

        They are spent after the bucket's own. Grants add up and last until the latest end. A single cost above the
        capacity stays impossible.

        Raises:
            StoreError: the store did not answer; they may have been granted.
        """
        plan = self._grant_plan(client, rule, tokens, seconds)
        op = plan.ops[0]
        try:
            seen = [self.store.grant(each, tokens, round(seconds * 1_000_000)) for each in plan.ops]
        finally:
            self._forget(op.identity, op.rule)
        return conclude(without_candidates(plan), seen[:1], self._source, spend=False)

    def reset(self, client: str, rule: str | None = None) -> None:
        """Give `client` a full bucket under `rule`, or under every rule that is keyed by the client alone.

        Raises:
            StoreError: the store did not answer; the buckets may be as they were.
        """
        for identity, rule_id, colocate in self._buckets_of(client, rule):
            try:
                self.store.reset(identity, rule_id, colocate)
            finally:
                self._forget(identity, rule_id)  # last: a refusal that was under way meanwhile must not outlive it

    def slot(self, client: str, rule: str) -> BlockingSlot:
        """A slot of a concurrency limit, asked for when its block begins and let go when it ends:

            with limiter.slot("acme", "exports") as slot:
                if slot.allowed: ...

        Raises:
            UsageError: an unknown rule, or one that does not limit how many run at a time.
        """
        return BlockingSlot(self._planned_slot(client, rule, new_holder()), self._local_slots, self.store)

    def _checked(self, client: str, rule: str, cost: int) -> Decision:
        """`check` where a store, or an observer, is to be asked or told."""
        if self._denied.entries:
            refusal = self._refused_just_now(client, rule, cost)
            if refusal is not None:
                return refusal
        plan = self._planned(client, rule, cost)
        plain = self._plain.get(rule)
        if self._observer is None and plan.ops and plain and plain[0] is plan.rules[0] and not self._leases.terms:
            return self._asked(plan, self._now_us())  # nothing but the store can decide it
        return self._decide(plan)

    def _decide(self, plan: Plan) -> Decision:
        asked_us = self._now_us()
        decision = self._leased(plan, asked_us) if self._leases.held else None
        if decision is None:
            decision = self._at_once(plan, asked_us) or self._asked(plan, asked_us)
        if self._observer is not None:
            self._observer.on_decision(decision, self._now_us() - asked_us)
        if self._leases.terms:
            self._borrow(self._leases.noted(plan, decision))
        return decision

    def _borrow(self, asked: Sequence[Lease]) -> None:
        if asked:
            borrow_each(asked, self._leases, cast(SharedStore, self.store).borrow)

    def _decide_each(self, plans: Sequence[Plan], take_each: TakeEach) -> list[Decision]:
        """Several decisions for one wait: those that the store must be asked for leave together."""
        asked_us = self._now_us()
        early = [self._early(plan, asked_us) for plan in plans]
        asked = [plan for plan, decision in zip(plans, early, strict=True) if decision is None]
        answers = iter(zip(asked, take_each([plan.ops for plan in asked]), strict=True))
        decisions = [decision or self._answered(*next(answers), asked_us) for decision in early]
        if self._observer is not None:
            for decision in decisions:
                self._observer.on_decision(decision, self._now_us() - asked_us)
        if self._leases.terms:
            for plan, decision in zip(plans, decisions, strict=True):
                self._borrow(self._leases.noted(plan, decision))
        return decisions

    def _early(self, plan: Plan, asked_us: int) -> Decision | None:
        """The decision, when the store is not to be asked for it."""
        decision = self._leased(plan, asked_us) if self._leases.held else None
        return decision or self._at_once(plan, asked_us) or self._unasked(plan, asked_us)

    def _asked(self, plan: Plan, asked_us: int) -> Decision:
        """The decision by the store, or without it."""
        early = self._unasked(plan, asked_us)
        if early is not None:
            return early
        try:
            return self._answered(plan, self.store.take(plan.ops), asked_us)
        except StoreError as error:
            return self._answered(plan, error, asked_us)

    def _unasked(self, plan: Plan, now_us: int) -> Decision | None:
        """The decision, when these must not be asked for now; else what is owed to their buckets is paid first."""
        tending = self._tending
        try:
            if self._drill.running:
                self._drill.check(plan.ops, now_us)
            if self._debts.entries or now_us >= tending.beats_us:
                while (debt := self._debts.due(plan.ops)) is not None:
                    tending.settle(debt)
                    self._in_time(now_us)
                tending.between(now_us, now_us + self._payment_us)
                self._settled(plan.ops)
        except StoreError as error:
            return self._without_store(plan, error, now_us)
        if self._denied.entries:
            self._goes_to_store(plan.ops, now_us)
        return None

    def _answered(self, plan: Plan, answer: Sequence[Seen] | StoreError, asked_us: int) -> Decision:
        if isinstance(answer, StoreError):
            return self._without_store(plan, answer, asked_us)
        return self._concluded(plan, answer, asked_us, len(plan.ops) == 1 or self.store.atomic(plan.ops))
