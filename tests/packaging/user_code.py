"""What users write, for a type checker to read; it is never run.

Right uses must be accepted. Wrong ones are marked with the error that they must get: strict checkers complain about
a mark that is not needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from fractions import Fraction
from typing import Any, assert_type

from limen import (
    AsyncLimiter,
    Block,
    Decision,
    Flag,
    LimenError,
    Limiter,
    Override,
    RateLimited,
    Request,
    Rule,
    RuleError,
    RuleSet,
    Standing,
)
from limen.adapters.asgi import RateLimitMiddleware
from limen.adapters.identity import ApiKeyIdentity, Identity
from limen.errors import MissingExtra, Problem, SettingsError, StoreError, Unavailable, UsageError
from limen.stores.base import AsyncStore, Store
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from limen.testing import STORE_PROMISES, FaultProxy, IntervalChecker, ManualClock, Overshoot, store_conformance
from limen.testing.servers import Cluster, Server

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]


def blocking() -> None:
    rules = [Rule("search", match={"path": "/v1/**"}, key_by=["client"], limit="100/minute", on_failure="closed")]
    clock = ManualClock()
    with Limiter("memory://", rules, clock=clock) as limiter:
        assert_type(limiter, Limiter)
        decision = limiter.check("acme", "search", cost=2)
        assert_type(decision, Decision)
        assert_type(decision.allowed, bool)
        assert_type(decision.remaining, int | None)
        assert_type(decision.retry_after_ms, int | None)
        assert_type(decision.status, int)
        assert_type(limiter.peek("acme", "search"), Decision)
        assert_type(limiter.check_many([("acme", "search"), ("acme", "search", 2)]), list[Decision])
        assert_type(limiter.grant("acme", "search", 50, seconds=60), Decision)
        said = [Block("client", "mallory"), Block("ip", "10.0.0.0/8", kind="allow", until=2e9)]
        standing = Standing(said, [Flag("acme", retry_after=60)], [Override("search", "plan", "gold", "500/minute")])
        limiter.use_standing(standing.replaced(flags=[Flag("acme", until=0)]))
        assert_type(limiter.standing, Standing)
        assert_type(decision.atomic, bool)
        with limiter.slot("acme", "exports") as slot:
            assert_type(slot.allowed, bool)
            assert_type(slot.renew(), bool)
            slot.raise_if_denied()
        limiter.reset("acme")
        limiter.use_rules(RuleSet(rules, revision=2))
        clock.advance(seconds=1.5)


async def shared() -> None:
    limiter = AsyncLimiter("valkey://localhost:6379", "file:///rules.yaml", gateways=4, deadline_ms=5, secret="0" * 16)
    async with limiter as entered:
        assert_type(entered, AsyncLimiter)
        assert_type(await limiter.check("acme", "search"), Decision)
        request = Request(method="GET", path="/v1/search", client="acme", headers={"x-tier": "gold"})
        assert_type(await limiter.check_request(request), Decision)
        assert_type(await limiter.check_many([("acme", "search"), ("acme", "search", 2)]), list[Decision])
        assert_type(await limiter.peek("acme", "search", cost=2), Decision)
        assert_type(await limiter.grant("acme", "search", 50), Decision)
        async with limiter.slot("acme", "exports") as slot:
            assert_type(slot.decision, Decision)
            assert_type(await slot.renew(), bool)
            assert_type(slot.lost, bool)
        await limiter.reset("acme", "search")
        assert_type(limiter.store_state, str)
        assert_type(limiter.ruleset.by_id["search"].id, str)


def errors(decision: Decision) -> float | None:
    try:
        decision.raise_if_denied()
    except RateLimited as denied:
        assert_type(denied.decision, Decision)
        return denied.retry_after
    except RuleError as error:
        assert_type(error.problems, tuple[Problem, ...])
    except StoreError as error:
        assert_type(error.kind, str)
    except (SettingsError, MissingExtra, UsageError, Unavailable, LimenError):
        return None
    return 0.0


class Watching:
    def on_decision(self, decision: Decision, duration_us: int) -> None: ...
    def on_store_error(self, kind: str, shard: str) -> None: ...


class Keys:
    def find(self, api_key: str, /) -> tuple[str | None, str | None, str | None] | None:
        return ("acme", "gold", None) if api_key else None


def identify(scope: Scope) -> Identity | None:
    return Identity(client=scope["team"]) if "team" in scope else None


async def site(
    scope: Scope, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None: ...


def served(limiter: AsyncLimiter) -> list[RateLimitMiddleware]:
    AsyncLimiter(rules=[Rule("r", capacity=10, refill_per_sec=0.5)], observer=Watching(), clock=ManualClock())
    return [
        RateLimitMiddleware(site, limiter),
        RateLimitMiddleware(site, limiter, identify, trusted_proxies=["10.0.0.0/8"], dialects=["github"]),
        RateLimitMiddleware(site, limiter, ApiKeyIdentity(Keys()), exempt=["/healthz"]),
    ]


def stores(store: Store, shared: AsyncStore) -> None:
    with Limiter(store, [Rule("search", limit="1/minute")]) as limiter:
        assert_type(limiter.check("acme", "search"), Decision)
    AsyncLimiter(shared, [Rule("search", limit="1/minute")])
    AsyncLimiter(AsyncMemoryStore(MemoryStore(ManualClock().now_us)))
    assert_type(STORE_PROMISES, tuple[str, ...])
    assert_type(store_conformance(lambda clock: MemoryStore(clock.now_us), STORE_PROMISES[:3], seed=2), list[str])
    store_conformance(lambda _: shared, clock=ManualClock(), moves_time=False)


def checked(rule: Rule) -> None:
    checker = IntervalChecker(rule)
    checker.admitted("acme", 1, 0, 250)
    checker.check(bound_tokens=Fraction(1, 10), bound_ratio=0.1)
    checker.settle(before_us=1_000_000)
    worst = checker.worst()
    assert_type(worst, Overshoot | None)
    if worst is not None:
        assert_type(worst.tokens, Fraction)
        assert_type(worst.ratio, float)


async def broken(server: Server, start: Callable[..., Cluster]) -> None:
    async with FaultProxy(server.url, seed=7) as proxy, AsyncLimiter(proxy.url) as limiter:
        proxy.delay(0.01, jitter=0.005)
        proxy.cut()
        proxy.heal()
        assert_type(proxy.counts.connections, int)
        assert_type(limiter.store_state, str)
    with FaultProxy.in_thread(("127.0.0.1", server.port)) as proxy:
        assert_type(proxy, FaultProxy)
    cluster = start(primaries=3, replicas=1)
    assert_type(cluster.failover(cluster.owner(0)), Server)
    cluster.primaries[0].partition()
    cluster.heal()


async def wrong(limiter: AsyncLimiter, blocking: Limiter, decision: Decision) -> None:
    assert limiter.check("acme", "search").allowed  # type: ignore[attr-defined]
    await limiter.check("acme", "search", cost=1.5)  # type: ignore[arg-type]
    await limiter.check(None, "search")  # type: ignore[arg-type]
    await limiter.check("acme")  # type: ignore[call-arg]
    await blocking.check("acme", "search")  # type: ignore[misc]
    with limiter:  # type: ignore[attr-defined]
        pass
    with limiter.slot("acme", "exports"):  # type: ignore[attr-defined]
        pass
    Rule("search", limit=100)  # type: ignore[arg-type]
    Rule("search", limit="1/minute", on_failure="close")  # type: ignore[arg-type]
    Rule("search", limit="1/minute", keyby=["client"])  # type: ignore[call-arg]
    Limiter(AsyncMemoryStore(MemoryStore(ManualClock().now_us)))  # type: ignore[arg-type]
    AsyncLimiter(MemoryStore(ManualClock().now_us))  # type: ignore[arg-type]
    IntervalChecker(100)  # type: ignore[arg-type]
    await FaultProxy("127.0.0.1:6379").heal()  # type: ignore[misc, func-returns-value]
    store_conformance(lambda clock: clock)  # type: ignore[arg-type, return-value]
    AsyncLimiter("memory://", clock=12.5)  # type: ignore[arg-type]
    AsyncLimiter("memory://", observer=print)  # type: ignore[arg-type]
    RateLimitMiddleware(site, blocking)  # type: ignore[arg-type]
    RateLimitMiddleware(site, limiter, identify=len)  # type: ignore[arg-type]
    decision.allowed = True  # type: ignore[misc]
    decision.retry_after_ms + 1  # type: ignore[operator]
