"""The check API: a decision for every question, a problem for everything that is none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest

from limen.adapters.check_api import CheckApi
from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule

Serve = Callable[..., Awaitable[str]]
MakeLimiter = Callable[..., Awaitable[AsyncLimiter]]
Until = Callable[[Callable[[], object]], Awaitable[None]]

PATIENT_MS = 20_000
"""A deadline that a busy machine keeps too."""
RULES = (
    Rule("search", limit="2/minute", match={"path": "/v1/search/**"}),
    Rule("pair", limit="5/minute", key_by=["client", "ip"], match={"path": "/pair"}),
)


@pytest.fixture
async def url(serve: Serve, make_limiter: MakeLimiter) -> str:
    return await serve(CheckApi(await make_limiter(*RULES)))


async def test_allowed_and_denied_are_200_with_the_decision(url: str, client: httpx2.AsyncClient) -> None:
    answers = [await client.post(f"{url}/v1/check", json={"client": "acme", "rule": "search"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert [answer.json()["allowed"] for answer in answers] == [True, True, False]
    assert answers[2].json() == {
        "allowed": False,
        "limit": 2,
        "remaining": 0,
        "retry_after_ms": 30_000,
        "reset_after_ms": 60_000,
        "rule": "search",
        "reason": "over_limit",
        "source": "memory",
        "degraded": False,
        "shadow": [],
        "atomic": True,
        "status": 429,
    }


async def test_a_request_is_matched_by_its_attributes(url: str, client: httpx2.AsyncClient) -> None:
    request = {
        "method": "GET", "path": "/v1/search/x", "host": "a", "client": "acme", "plan": "free", "user": "ann",
        "ip": "192.0.2.7", "headers": {"X-A": "1"},
    }  # fmt: skip
    assert (await client.post(f"{url}/v1/check", json=request)).json()["rule"] == "search"
    assert (await client.post(f"{url}/v1/check", json={"path": "/other", "client": None})).json()["rule"] is None


async def test_state_looks_and_spends_nothing(url: str, client: httpx2.AsyncClient) -> None:
    await client.post(f"{url}/v1/check", json={"client": "acme", "rule": "search"})
    for _ in range(3):
        answer = await client.get(f"{url}/v1/state", params={"client": "acme", "rule": "search"})
        assert (answer.status_code, answer.json()["remaining"]) == (200, 1)
    head = await client.head(f"{url}/v1/state", params={"client": "acme", "rule": "search"})
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff", 400),
        (b'{"client": "a", "rule": "search", "cost": NaN}', 400),
        (b'{"client": "a", "rule": "search", "cost": Infinity}', 400),
        (b'{"client": "a", "client": "b", "rule": "search"}', 400),
        (b"[" * 60_000, 400),
        (b'{"cost": ' + b"9" * 5000 + b"}", 400),
        (b"[]", 422),
        (b'"text"', 422),
        (b"{}", 422),
        (b'{"client": "a"}', 422),
        (b'{"rule": "search"}', 422),
        (b'{"client": "", "rule": "search"}', 422),
        (b'{"client": 7, "rule": "search"}', 422),
        (b'{"client": "\\ud800", "rule": "search"}', 422),
        (b'{"client": "a", "rule": "search", "csot": 1}', 422),
        (b'{"client": "a", "rule": "search", "path": "/"}', 422),
        (b'{"client": "a", "rule": "search", "cost": -1}', 422),
        (b'{"client": "a", "rule": "search", "cost": true}', 422),
        (b'{"client": "a", "rule": "search", "cost": "1"}', 422),
        (b'{"client": "a", "rule": "search", "cost": 1.5}', 422),
        (b'{"client": "a", "rule": "search", "cost": 1e999}', 422),
        (b'{"client": "a", "rule": "search", "cost": 99999999999999999999}', 422),
        (b'{"client": "a", "rule": "search", "cost": null}', 422),
        (b'{"client": "a", "rule": "pair"}', 422),
        (b'{"path": "/", "cost": 1}', 422),
        (b'{"path": "/", "headers": ["a"]}', 422),
        (b'{"path": "/", "headers": {"a": 1}}', 422),
        (b'{"client": "a", "rule": "nope"}', 404),
        (b'{"client": "' + b"a" * 70_000 + b'"}', 413),
    ],
)
async def test_bad_questions_are_problems(url: str, client: httpx2.AsyncClient, body: bytes, status: int) -> None:
    answer = await client.post(f"{url}/v1/check", content=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.json()["detail"]


async def test_an_endless_body_is_413(url: str, client: httpx2.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    assert (await client.post(f"{url}/v1/check", content=endless())).status_code == 413


async def test_a_body_that_does_not_end_is_408(serve: Serve, make_limiter: MakeLimiter) -> None:
    url = await serve(CheckApi(await make_limiter(*RULES), body_timeout_s=0.05))
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{")
    assert (await reader.readline()).startswith(b"HTTP/1.1 408")
    writer.close()
    await writer.wait_closed()


async def test_a_client_that_hangs_up_is_not_answered(make_limiter: MakeLimiter) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/check", "headers": []}
    await CheckApi(await make_limiter(*RULES))(scope, receive, send)
    assert sent == []


async def test_a_batch_answers_each_item_in_its_place(url: str, client: httpx2.AsyncClient) -> None:
    by_path = {"path": "/v1/search/x", "client": "other"}
    items = [*[{"client": "acme", "rule": "search"}] * 3, by_path, {"path": "/"}, *[by_path] * 2]
    answers = (await client.post(f"{url}/v1/check/batch", json=items)).json()
    assert [answer["status"] for answer in answers] == [200, 200, 429, 200, 200, 200, 429]
    alone = (await client.post(f"{url}/v1/check", json=items[0])).json()
    assert answers[2] == {**alone, "source": "memory"}


@pytest.mark.parametrize(
    "bad",
    [
        7,
        {},
        {"client": "acme"},
        {"client": "acme", "rule": "nope"},
        {"client": "acme", "rule": "pair"},
        {"client": "acme", "rule": "search", "cost": -1},
        {"path": 7},
    ],
)
async def test_one_bad_item_is_named_and_nothing_of_its_batch_is_spent(
    url: str, client: httpx2.AsyncClient, bad: object
) -> None:
    good = {"client": "acme", "rule": "search"}
    answer = await client.post(f"{url}/v1/check/batch", json=[good, good, bad, good])
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["index"] == 2
    assert answer.json()["detail"].startswith("Item 2: ")
    state = await client.get(f"{url}/v1/state", params=good)
    assert state.json()["remaining"] == 2


@pytest.mark.parametrize("count", [0, 1001])
async def test_a_batch_has_its_bounds(url: str, client: httpx2.AsyncClient, count: int) -> None:
    item = {"client": "acme", "rule": "search"}
    answer = await client.post(f"{url}/v1/check/batch", json=[item] * count)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert "1 to 1000" in answer.json()["detail"]


async def test_a_batch_that_is_no_list_or_too_large_is_a_problem(url: str, client: httpx2.AsyncClient) -> None:
    batch = f"{url}/v1/check/batch"
    assert (await client.post(batch, json={"client": "acme", "rule": "search"})).status_code == 422
    assert (await client.post(batch, content=b"[")).status_code == 400
    assert (await client.post(batch, content=b"[" + b" " * 1_100_000 + b"]")).status_code == 413


async def test_the_largest_batch_is_exact_at_a_real_store(
    serve: Serve, client: httpx2.AsyncClient, valkey_url: str, until: Until
) -> None:
    async with AsyncLimiter(valkey_url, [Rule("r", limit="700/day")], deadline_ms=PATIENT_MS) as limiter:
        await until(lambda: limiter.store_state == "up")
        url = await serve(CheckApi(limiter))
        answers = (await client.post(f"{url}/v1/check/batch", json=[{"client": "acme", "rule": "r"}] * 1000)).json()
    assert {answer["source"] for answer in answers} <= {"store", "deny_cache"}
    assert [answer["allowed"] for answer in answers] == [True] * 700 + [False] * 300


async def test_an_item_that_cannot_be_decided_says_so_and_the_others_are_decided(
    serve: Serve, client: httpx2.AsyncClient, free_port: int
) -> None:
    rules = [Rule("open", limit="100/minute"), Rule("closed", limit="100/minute", on_failure="closed")]
    items = [{"client": "acme", "rule": rule} for rule in ("open", "closed", "open")]
    async with AsyncLimiter(f"valkey://127.0.0.1:{free_port}", rules) as limiter:
        url = await serve(CheckApi(limiter))
        answer = await client.post(f"{url}/v1/check/batch", json=items)
    assert answer.status_code == 200
    assert [(item["status"], item["source"]) for item in answer.json()] == [
        (200, "local_share"), (503, "none"), (200, "local_share"),
    ]  # fmt: skip
    assert answer.json()[1] == {
        "allowed": False, "limit": None, "remaining": None, "retry_after_ms": 1000, "reset_after_ms": None,
        "rule": "closed", "reason": "store_unavailable", "source": "none", "degraded": True, "shadow": [],
        "atomic": True, "status": 503,
    }  # fmt: skip


async def test_rules_that_change_under_a_batch_are_a_conflict(serve: Serve, client: httpx2.AsyncClient) -> None:
    async with AsyncLimiter("memory://", RULES) as limiter:

        class Changing:
            """The same limiter; the rule goes when a first part of the batch is decided."""

            ruleset = limiter.ruleset
            peek = limiter.peek
            check_request = limiter.check_request

            async def check(self, client: str, rule: str, cost: int = 1) -> Decision:
                decision = await limiter.check(client, rule, cost)
                limiter.use_rules([])
                return decision

        url = await serve(CheckApi(Changing()))
        answer = await client.post(f"{url}/v1/check/batch", json=[{"client": "acme", "rule": "search"}] * 3)
    assert (answer.status_code, answer.headers["content-type"]) == (409, "application/problem+json")


async def test_undecidable_under_a_closed_rule_is_503(serve: Serve, client: httpx2.AsyncClient, free_port: int) -> None:
    rule = Rule("search", limit="2/minute", on_failure="closed")
    question = {"client": "acme", "rule": "search"}
    async with AsyncLimiter(f"valkey://127.0.0.1:{free_port}", [rule]) as limiter:
        url = await serve(CheckApi(limiter))
        for answer in (
            await client.post(f"{url}/v1/check", json=question),
            await client.get(f"{url}/v1/state", params=question),
        ):
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            assert answer.json()["type"].endswith("#temporary-reduced-capacity")


async def test_a_state_can_be_asked_for_a_cost(url: str, client: httpx2.AsyncClient) -> None:
    asked = {"client": "acme", "rule": "search"}
    await client.post(f"{url}/v1/check", json=asked)
    found = [(await client.get(f"{url}/v1/state", params={**asked, "cost": cost})).json() for cost in (0, 1, 2, 3)]
    assert [state["allowed"] for state in found] == [True, True, False, False]
    assert [state["remaining"] for state in found] == [1] * 4
    assert [state["retry_after_ms"] for state in found] == [0, 0, 30_000, None]


@pytest.mark.parametrize("cost", ["", "-1", "1.5", "many", "1e3", "٣", "9" * 30, "1&cost=1", "1000000001"])
async def test_a_state_for_a_cost_that_is_none_is_422(url: str, client: httpx2.AsyncClient, cost: str) -> None:
    answer = await client.get(f"{url}/v1/state?client=acme&rule=search&cost={cost}")
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert "cost" in answer.json()["detail"]


@pytest.mark.parametrize(
    "query",
    ["", "client=a", "rule=search", "client=&rule=search", "client=a&rule=search&x=1", "client=a&client=b&rule=search"],
)
async def test_a_state_without_its_two_names_is_422(url: str, client: httpx2.AsyncClient, query: str) -> None:
    assert (await client.get(f"{url}/v1/state?{query}")).status_code == 422


async def test_a_state_of_an_unknown_or_composite_rule(url: str, client: httpx2.AsyncClient) -> None:
    assert (await client.get(f"{url}/v1/state?client=a&rule=nope")).status_code == 404
    assert (await client.get(f"{url}/v1/state?client=a&rule=pair")).status_code == 422


async def test_other_paths_and_methods_are_problems(url: str, client: httpx2.AsyncClient) -> None:
    assert (await client.get(f"{url}/")).status_code == 404
    assert (await client.get(f"{url}/metrics")).status_code == 404
    wrong = await client.get(f"{url}/v1/check")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert (await client.post(f"{url}/healthz")).headers["allow"] == "GET, HEAD"


async def test_health_readiness_and_metrics(
    serve: Serve, make_limiter: MakeLimiter, client: httpx2.AsyncClient
) -> None:
    state = {"ready": False}
    api = CheckApi(
        await make_limiter(*RULES),
        ready=lambda: (state["ready"], {"rules": 7}),
        metrics=lambda: (b"limen 1\n", "text/plain; version=1.0.0"),
    )
    url = await serve(api, lifespan="on")
    assert (await client.get(f"{url}/healthz")).json() == {"status": "ok"}
    assert (await client.head(f"{url}/healthz")).status_code == 200
    not_yet = await client.get(f"{url}/readyz")
    assert (not_yet.status_code, not_yet.json()) == (503, {"status": "not ready", "rules": 7})
    state["ready"] = True
    assert (await client.get(f"{url}/readyz")).status_code == 200
    metrics = await client.get(f"{url}/metrics")
    assert (metrics.text, metrics.headers["content-type"]) == ("limen 1\n", "text/plain; version=1.0.0")


async def test_problems_do_not_repeat_what_was_sent(url: str, client: httpx2.AsyncClient) -> None:
    bodies = [
        {"client": "a", "rule": "canary"},
        {"client": "a", "rule": "search", "canary": 1},
        {"path": 7, "x": "canary"},
        {"client": "a", "rule": "search", "cost": "canary"},
    ]
    for body in [*map(json.dumps, bodies), '{"canary": nul}', '{"canary": 1, "canary": 2}']:
        assert "canary" not in (await client.post(f"{url}/v1/check", content=body)).text
        assert "canary" not in (await client.post(f"{url}/v1/check/batch", content=f"[{body}]")).text
