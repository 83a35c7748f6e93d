"""Public faults in rules and configuration, each by its id."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import httpx2
import pytest

from limen import AsyncLimiter, Limiter, Request, Rule, RuleError
from limen.adapters.asgi import RateLimitMiddleware
from limen.adapters.identity import ApiKeyIdentity, BadIdentity, Identity
from limen.core.limit import Limit
from limen.rules.parse import rules_from_text
from limen.testing import ManualClock

SEARCH = {
    "match": "{methods: [GET], path: /v1/search/**}", "key_by": "[client]", "algorithm": "token_bucket",
    "limit": "100/minute", "cost": "1", "on_failure": "closed", "mode": "enforce", "rollout": "100", "lease": "off",
    "tags": "[team]", "public_name": "Search",
}  # fmt: skip
COMMON = {"match": "{path: /v1/search}", "key_by": "[client]"}


def read(fields: dict[str, str]) -> Rule:
    (rule,) = rules_from_text("rules:\n  - id: search\n" + "".join(f"    {name}: {fields[name]}\n" for name in fields))
    return rule


def complaint(fields: dict[str, str]) -> str:
    with pytest.raises(RuleError) as caught:
        read(fields)
    return str(caught.value)


@pytest.mark.parametrize("field", SEARCH)
def test_RU_20_a_field_that_is_missing_has_its_documented_default_or_is_an_error(field: str) -> None:
    fields = {name: value for name, value in SEARCH.items() if name != field}
    if field == "limit":
        assert "rule 'search', field 'limit': there is no limit; write limit: 100/minute" in complaint(fields)
        return
    rule = read(fields)
    assert rule.limit == Limit(100, Fraction(100, 60))
    defaults = {
        "key_by": ("client",),
        "cost": (1, ()),
        "on_failure": "open",
        "mode": "enforce",
        "rollout": 100,
        "lease": None,
    }
    if field in defaults:
        assert getattr(rule, field) == defaults[field]


@pytest.mark.parametrize("field", ["key_by", "cost", "on_failure", "mode", "rollout", "lease", "tags", "regions"])
def test_RU_20_a_field_that_was_begun_and_left_empty_is_an_error(field: str) -> None:
    assert f"field '{field}': it is empty" in complaint({**SEARCH, field: ""})


def test_RU_20_a_rule_without_an_id_or_with_half_a_bucket_is_an_error() -> None:
    with pytest.raises(RuleError, match="field 'id': the rule has no id"):
        rules_from_text("rules:\n  - limit: 100/minute\n")
    assert "field 'refill_per_sec': refill_per_sec is missing" in complaint({**COMMON, "capacity": "10"})
    assert "field 'capacity': capacity is missing" in complaint({**COMMON, "refill_per_sec": "10"})


@pytest.mark.parametrize(
    "limit", ["100/", "100", "10", "10m", "PT1M", "100/10", "100/PT1M", "100/0", "100/0s", "100/-1", "-1"]
)
def test_RU_20_a_period_that_is_none_is_an_error(limit: str) -> None:
    assert "rule 'search', field 'limit'" in complaint({**COMMON, "limit": limit})


@pytest.mark.parametrize(
    ("limit", "refill"), [("100/10m", 100 / 600), ("100/10 minutes", 100 / 600), ("100 per 1m", 100 / 60)]
)
def test_RU_20_a_period_means_what_it_says(limit: str, refill: float) -> None:
    found = read({**COMMON, "limit": limit}).limit
    assert isinstance(found, Limit)
    assert float(found.refill_per_sec) == pytest.approx(refill)


def test_RU_20_nothing_is_unlimited_that_does_not_say_so() -> None:
    assert read({**COMMON, "limit": "unlimited"}).limit is None
    for limit in ("", "~", "none", "inf", ".inf", "0.0", "infinite"):
        assert "field 'limit'" in complaint({**COMMON, "limit": limit})
    with Limiter(rules=[read({**COMMON, "limit": "0"})]) as limiter:
        assert not limiter.check_request(Request(path="/v1/search", client="acme")).allowed


async def served(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def asking(app: Any, limiter: AsyncLimiter) -> AsyncIterator[Callable[[str], Any]]:
    transport = httpx2.ASGITransport(app, client=("192.0.2.1", 1))
    async with limiter, httpx2.AsyncClient(transport=transport, base_url="http://api.example") as client:
        yield lambda path: client.get(path, headers={"x-api-key": "key"})


def routed(**routes: Any) -> Any:
    """An app that sends each path to an app of its own, as frameworks do: the scope is a copy with marks of theirs."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        inner = routes.get(scope["path"].strip("/") or "root", served)
        await inner({**scope, "path_params": {}, "root_path": "/app"}, receive, send)

    return app


async def test_RU_04_a_limit_of_the_app_and_one_of_a_route_each_count_once() -> None:
    rules = [Rule("app", limit="600/minute"), Rule("route", match={"path": "/"}, limit="300/minute")]
    limiter = AsyncLimiter("memory://", rules, clock=ManualClock())
    app = RateLimitMiddleware(routed(root=RateLimitMiddleware(served, limiter)), limiter)
    async with asking(app, limiter) as ask:
        answers = [await ask(path) for path in ["/", "/2"] * 100]
        assert {answer.status_code for answer in answers} == {200}
        left = [(await limiter.peek("192.0.2.1", rule, 0)).remaining for rule in ("app", "route")]
        by_address = limiter.ruleset.by_id["app"].key(Request(ip="192.0.2.1"), [])
        assert by_address == "ip=192.0.2.1"
        told = (await limiter.explain(Request(path="/", ip="192.0.2.1"))).rules
    assert left == [600, 300]
    assert {story.rule.id: story.before.remaining for story in told if story.before} == {"app": 400, "route": 200}


async def test_RU_05_a_limiter_in_the_way_time_and_again_charges_once() -> None:
    limiter = AsyncLimiter("memory://", [Rule("r", limit="300/minute")], clock=ManualClock())
    twice = RateLimitMiddleware(RateLimitMiddleware(served, limiter), limiter)

    async def redirecting(scope: Any, receive: Any, send: Any) -> None:
        """An internal redirect, to a path that is limited again."""
        await twice({**scope, "path": "/new", "raw_path": b"/new"}, receive, send)

    app = RateLimitMiddleware(RateLimitMiddleware(redirecting, limiter), limiter)
    async with asking(app, limiter) as ask:
        answers = [await ask("/old") for _ in range(150)]
    assert {answer.status_code for answer in answers} == {200}
    assert answers[-1].headers.get_list("x-ratelimit-remaining") == ["150"]


@pytest.mark.parametrize(("rules", "warned"), [(["r", "inner"], 1), (["inner"], 0)])
async def test_RU_05_two_limiters_with_a_rule_in_common_are_warned_of(
    valkey_url: str, rules: list[str], warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    outer = AsyncLimiter(valkey_url, [Rule("r", limit="300/minute")], deadline_ms=500)
    inner = AsyncLimiter(valkey_url, [Rule(rule, limit="300/minute") for rule in rules], deadline_ms=500)
    with caplog.at_level(logging.WARNING, "limen.adapters.asgi"):
        app = RateLimitMiddleware(RateLimitMiddleware(served, inner), outer)
        async with inner, asking(app, outer) as ask:
            assert [(await ask("/")).status_code for _ in range(2)] == [200, 200]
    assert len(caplog.records) == warned
    assert all("both have rule r and is charged twice" in record.getMessage() for record in caplog.records)


async def later() -> Identity:
    return Identity("acme")


def raising(scope: Any) -> Identity:
    raise LookupError("client-canary")


def sleeping(scope: Any) -> Identity:
    time.sleep(0.15)
    return Identity("slow-client")


ANSWERS: dict[str, Any] = {
    "raises": raising, "None": lambda scope: None, "empty": lambda scope: "", "0": lambda scope: 0,
    "-1": lambda scope: -1, "a coroutine": lambda scope: later(), "a text": lambda scope: "abc",
    "a number for a client": lambda scope: Identity(5), "an empty client": lambda scope: Identity(""),
    "half a character": lambda scope: Identity("\ud800"), "too many": lambda scope: ("a", "b", "c", "d"),
    "a class": lambda scope: Identity,
}  # fmt: skip
IN_ORDER = ("None", "an empty client", "half a character")


@pytest.mark.parametrize("said", ANSWERS)
async def test_RU_22_an_identify_that_fails_means_the_address(said: str, caplog: pytest.LogCaptureFixture) -> None:
    limiter = AsyncLimiter("memory://", [Rule("r", limit="2/minute"), Rule("u", limit="9/minute", key_by=["user"])])
    with caplog.at_level(logging.ERROR, "limen"):
        async with asking(RateLimitMiddleware(served, limiter, ANSWERS[said]), limiter) as ask:
            answers = [(await ask("/")).status_code for _ in range(3)]
            address = Request(ip="192.0.2.1")
            left = next(story.before for story in (await limiter.explain(address)).rules if story.rule.id == "r")
    assert answers == [200, 200, 429]
    assert left is not None
    assert left.remaining == (2 if said == "half a character" else 0)
    assert len(caplog.records) == (0 if said in IN_ORDER else 1), caplog.text
    assert "canary" not in caplog.text


async def test_RU_22_one_that_blocks_is_told_of_once_and_believed(caplog: pytest.LogCaptureFixture) -> None:
    limiter = AsyncLimiter("memory://", [Rule("r", limit="5/minute")])
    with caplog.at_level(logging.ERROR, "limen"):
        async with asking(RateLimitMiddleware(served, limiter, sleeping), limiter) as ask:
            assert [(await ask("/")).status_code for _ in range(2)] == [200, 200]
            assert (await limiter.peek("slow-client", "r", 0)).remaining == 3
    (record,) = caplog.records
    assert "every other request waited" in record.getMessage()


@pytest.mark.parametrize("said", ["raises", "None", "empty", "0", "a coroutine", "a number for a client"])
async def test_RU_22_keys_that_cannot_be_looked_up_mean_the_address(
    said: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Keys:
        def find(self, api_key: str, /) -> Any:
            return ANSWERS[said](None)

    limiter = AsyncLimiter("memory://", [Rule("r", limit="2/minute", on_failure="closed")])
    with caplog.at_level(logging.ERROR, "limen"):
        async with asking(RateLimitMiddleware(served, limiter, ApiKeyIdentity(Keys())), limiter) as ask:
            assert [(await ask("/")).status_code for _ in range(3)] == [200, 200, 429]
    assert len(caplog.records) == (0 if said == "None" else 1), caplog.text


async def test_RU_22_a_contradiction_is_the_clients_fault_and_is_told_so() -> None:
    limiter = AsyncLimiter("memory://", [Rule("r", limit="2/minute")])
    async with asking(RateLimitMiddleware(served, limiter, lambda scope: BadIdentity("two names")), limiter) as ask:
        assert (await ask("/")).status_code == 400
