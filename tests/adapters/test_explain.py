"""`/v1/explain`: every rule is accounted for, what it says is what a check then does, and nothing is spent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from limen.adapters.check_api import CheckApi
from limen.adapters.identity import ApiKeyIdentity
from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet

Serve = Callable[..., Awaitable[str]]
MakeLimiter = Callable[..., Awaitable[AsyncLimiter]]

RULES = (
    Rule("search", limit="2/minute", match={"path": "/v1/search/**", "methods": ["GET"]}),
    Rule("by-address", limit="5/minute", key_by=["ip"], match={"path": "/v1/**"}, cost=2),
    Rule("trial", limit="1/day", match={"path": "/v1/**"}, mode="shadow"),
    Rule("gold", limit="9/minute", match={"plan": "gold"}),
    Rule("inside", limit="9/minute", match={"ip": ["10.0.0.0/8", "192.168.0.0/16"]}),
    Rule("tier", limit="9/minute", match={"header": {"x-tier": "a", "x-other": ["b", "c"]}}),
    Rule("elsewhere", limit="9/minute", match={"path": "/v2/{id}"}),
    Rule("writes", limit="9/minute", match={"methods": ["POST", "PUT"], "path": "/**"}),
    Rule("host", limit="8/minute", match={"host": "api.example.com"}),
    Rule("off", limit="9/minute", mode="off"),
    Rule("free", limit="unlimited"),
    Rule("exports", limit="3 concurrent"),
    Rule("beta", limit="9/hour", rollout=0),
)
WHY = {
    "gold": "its plan must be gold, and the request has free",
    "inside": "its ip must be 10.0.0.0/8 or 192.168.0.0/16, and the request has 192.0.2.7",
    "tier": "its header x-other must be b or c, and the request has none",
    "elsewhere": "its path is /v2/{id}, that of the request is /v1/search/x",
    "writes": "its methods must be POST or PUT, and the request has GET",
    "host": "its host must be api.example.com, and the request has none",
    "off": "it is off",
    "free": "it limits nothing",
    "exports": "it limits how many run at a time, and is asked for by its name",
    "beta": "its rollout of 0 % has not reached this key",
}
ASKED = {"path": "/v1/search/x", "client": "acme", "plan": "free", "ip": "192.0.2.7", "header": "X-Tier: a"}


class Keys:
    def find(self, api_key: str) -> tuple[str, str, None] | None:
        return ("acme", "free", None) if api_key == "key-of-acme" else None


@pytest.fixture
async def limiter(make_limiter: MakeLimiter) -> AsyncLimiter:
    limiter = await make_limiter()
    limiter.use_rules(RuleSet(RULES, 7, {"search": 3}))
    return limiter


@pytest.fixture
async def url(serve: Serve, limiter: AsyncLimiter) -> str:
    return await serve(CheckApi(limiter, identify=ApiKeyIdentity(Keys())))


async def explained(client: httpx2.AsyncClient, url: str, **changed: Any) -> Any:
    answer = await client.get(f"{url}/v1/explain", params={**ASKED, **changed})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_every_rule_applies_or_says_why_not(url: str, client: httpx2.AsyncClient) -> None:
    found = await explained(client, url)
    assert {rule["rule"]: rule["why"] for rule in found["rules"] if not rule["applies"]} == WHY
    assert [rule["rule"] for rule in found["rules"] if rule["applies"]] == ["by-address", "trial", "search"]
    assert len(found["rules"]) == len(RULES)
    assert (found["revision"], found["gateways"], found["source"]) == (7, 1, "memory")
    assert found["client"] == {"name": "acme", "from": "client"}
    assert found["request"]["headers"] == {"x-tier": "a"}


async def test_buckets_are_shown_before_and_after_and_nothing_is_spent(url: str, client: httpx2.AsyncClient) -> None:
    for _ in range(3):
        rules = {rule["rule"]: rule for rule in (await explained(client, url))["rules"]}
        search, address = rules["search"], rules["by-address"]
        assert (search["before"]["remaining"], search["after"]["remaining"], search["allows"]) == (2, 1, True)
        assert search["after"]["reset_after_ms"] == 30_000
        assert (search["key"], search["cost"], search["limit"], search["version"]) == ("client=acme", 1, 2, 3)
        assert (address["key"], address["cost"], address["before"]["remaining"]) == ("ip=192.0.2.7", 2, 5)
        assert address["after"]["remaining"] == 3


async def test_what_it_foretells_is_what_a_check_does(url: str, client: httpx2.AsyncClient) -> None:
    asked = {name: value for name, value in ASKED.items() if name != "header"}
    for _ in range(4):
        foretold = (await explained(client, url))["decision"]
        decided = (await client.post(f"{url}/v1/check", json=asked)).json()
        assert {**foretold, "remaining": None, "reset_after_ms": None} == {
            **decided, "remaining": None, "reset_after_ms": None, "source": foretold["source"],
        }  # fmt: skip
    refused = await explained(client, url)
    assert (refused["decision"]["allowed"], refused["decision"]["rule"]) == (False, "search")
    for rule in refused["rules"]:
        assert rule.get("before") == rule.get("after")


async def test_the_bound_of_each_rule_is_shown_with_what_it_is_made_of(url: str, client: httpx2.AsyncClient) -> None:
    rules = {rule["rule"]: rule for rule in (await explained(client, url))["rules"]}
    assert rules["search"]["bound"]["ratio"] == 1  # memory:// forgets everything when the process ends
    assert rules["search"]["bound"]["parts"][0]["mechanism"] == "empty_restart"
    assert rules["trial"]["bound"] is None


async def test_the_client_is_derived_from_the_api_key_as_a_gateway_does(url: str, client: httpx2.AsyncClient) -> None:
    asked = {"path": "/v1/search/x", "ip": "192.0.2.7"}
    for headers, found, key in (
        ({"X-API-Key": "key-of-acme"}, {"name": "acme", "from": "api_key"}, "client=acme"),
        ({"X-API-Key": "made-up"}, {"name": "192.0.2.7", "from": "ip"}, "ip=192.0.2.7"),
        ({}, {"name": "192.0.2.7", "from": "ip"}, "ip=192.0.2.7"),
    ):
        answer = (await client.get(f"{url}/v1/explain", params=asked, headers=headers)).json()
        assert answer["client"] == found
        assert {rule["rule"]: rule["key"] for rule in answer["rules"] if rule["applies"]}["search"] == key
    assert (await client.get(f"{url}/v1/explain", params={"path": "/"})).json()["client"]["from"] == "none"


@pytest.mark.parametrize(
    "query",
    ["", "client=a", "path=", "path=/&path=/", "path=/&rule=x", "path=/&header=x", "path=/&header=:x", "path=/&cost=1",
     "path=/&client="],
)  # fmt: skip
async def test_a_question_that_is_none_is_422(url: str, client: httpx2.AsyncClient, query: str) -> None:
    answer = await client.get(f"{url}/v1/explain?{query}")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_two_api_keys_are_refused(url: str, client: httpx2.AsyncClient) -> None:
    headers = [("X-API-Key", "a"), ("X-API-Key", "b")]
    assert (await client.get(f"{url}/v1/explain?path=/", headers=headers)).status_code == 400


async def test_without_the_store_it_tells_of_the_local_share_and_its_size(
    serve: Serve, client: httpx2.AsyncClient
) -> None:
    rules = [Rule("open", limit="100/minute", match={"path": "/**"})]
    async with AsyncLimiter("valkey://127.0.0.1:1", rules, gateways=4) as limiter:
        url = await serve(CheckApi(limiter))
        found = await explained(client, url)
        assert (found["source"], found["gateways"], found["decision"]["degraded"]) == ("local_share", 4, True)
        assert (found["rules"][0]["before"]["remaining"], found["rules"][0]["share"]) == (2, 25)
        assert found["rules"][0]["bound"]["ratio"] == pytest.approx(0.1)
        limiter.use_rules([Rule("closed", limit="100/minute", match={"path": "/**"}, on_failure="closed")])
        closed = await explained(client, url)
        assert closed["decision"]["reason"] == "store_unavailable"
        assert (closed["rules"][0]["before"], closed["rules"][0]["allows"]) == (None, None)


def test_threads_ask_in_the_same_words() -> None:
    with Limiter("memory://", RULES) as limiter:
        limiter.use_rules(RuleSet(RULES, 7))
        request = Request("GET", "/v1/search/x", client="acme", plan="free", ip="192.0.2.7", headers={"x-tier": "a"})
        found = limiter.explain(request)
        assert [story.rule.id for story in found.rules if story.why_not is None] == ["by-address", "trial", "search"]
        assert {story.rule.id: story.why_not for story in found.rules if story.why_not} == WHY
        assert limiter.check_request(request).remaining == 1
    with Limiter("valkey://127.0.0.1:1", [Rule("open", limit="100/minute")], gateways=4) as limiter:
        assert limiter.explain(Request(client="acme")).decision.source == "local_share"
