"""Public faults of limiters at their HTTP edge, none of which is ours. Each test is named after its case."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limen.adapters.asgi import RateLimitMiddleware
from limen.adapters.http import denial, dialects
from limen.adapters.identity import ApiKeyIdentity
from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.rules.model import Rule
from limen.testing import ManualClock

ORIGIN = "https://app.example.com"
EXPOSED = {"ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}


class App:
    """Answers 200, or with what a test gave it."""

    def __init__(self, status: int = 200, *headers: tuple[str, str]) -> None:
        self.status, self.headers, self.calls = status, headers, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1
        raw = [(name.encode(), value.encode()) for name, value in self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        await send({"type": "http.response.body", "body": b""})


class Cors:
    """A CORS layer such as frameworks have."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def allowing(message: Any) -> None:
            if message["type"] == "http.response.start":
                allow = (b"access-control-allow-origin", ORIGIN.encode())
                message = {**message, "headers": [*message["headers"], allow]}
            await send(message)

        await self.app(scope, receive, allowing)


@asynccontextmanager
async def limited(
    limit: str, app: Any, clock: ManualClock, outside: Any = None, **options: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of `app` behind a limiter with one rule; `outside` is a layer around the limiter."""
    async with AsyncLimiter(
        "memory://", [Rule("internal-rule", limit=limit, public_name="api")], clock=clock
    ) as limiter:
        wrapped: Any = RateLimitMiddleware(app, limiter, **options)
        transport = httpx2.ASGITransport(outside(wrapped) if outside else wrapped)
        async with httpx2.AsyncClient(transport=transport, base_url="http://api.example") as client:
            yield client


@pytest.mark.parametrize("cors_outside", [True, False])
async def test_HT_01_a_script_can_read_the_fields_of_200_and_429(clock: ManualClock, cors_outside: bool) -> None:
    app, outside = (App(), Cors) if cors_outside else (Cors(App()), None)
    async with limited("1/minute", app, clock, outside) as client:
        answers = [await client.get("/", headers={"Origin": ORIGIN}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    for answer, extra in zip(answers, ((), ("retry-after",)), strict=True):
        names = {name.strip().lower() for name in answer.headers["access-control-expose-headers"].split(",")}
        assert names == EXPOSED | set(extra)
        if cors_outside or answer.status_code == 200:
            assert answer.headers["access-control-allow-origin"] == ORIGIN


async def test_HT_02_preflights_are_free_and_plain_options_are_not(clock: ManualClock) -> None:
    preflight = {"Origin": ORIGIN, "Access-Control-Request-Method": "GET"}
    async with limited("10/minute", App(), clock) as client:
        gets = []
        for _ in range(10):
            assert (await client.options("/", headers=preflight)).status_code == 200
            gets.append((await client.get("/")).status_code)
        assert gets == [200] * 10
        assert (await client.options("/", headers=preflight)).status_code == 200
        assert [(await client.options("/")).status_code for _ in range(5)] == [429] * 5


@pytest.mark.parametrize("value", ["120", "Wed, 21 Oct 2026 07:28:00 GMT", "soon"])
async def test_HT_04_the_apps_own_retry_after_stays(clock: ManualClock, value: str) -> None:
    async with limited("5/minute", App(503, ("Retry-After", value), ("X-RateLimit-Limit", "7")), clock) as client:
        answer = await client.get("/")
    assert answer.status_code == 503
    assert answer.headers.get_list("retry-after") == [value]
    assert answer.headers.get_list("x-ratelimit-limit") == ["7"]
    assert answer.headers["x-ratelimit-remaining"] == "4"


async def test_HT_05_reset_is_never_0_while_something_is_spent(clock: ManualClock) -> None:
    async with limited("2/minute", App(), clock) as client:
        answers = []
        for _ in range(3):
            answers.append(await client.get("/"))
            clock.advance(1)
    assert [int(answer.headers["x-ratelimit-reset"]) for answer in answers] == [30, 59, 58]
    assert int(answers[2].headers["retry-after"]) in range(28, 31)
    assert answers[2].headers["ratelimit"] == '"api";r=0;t=28'


@given(
    st.floats(0.001, 10_000),
    st.integers(1, 1000),
    st.integers(1, 1000),
    st.floats(0, 1, exclude_max=True),
)
@settings(max_examples=100)
def test_HT_07_retry_after_is_a_plain_positive_number(rate: float, capacity: int, cost: int, jitter: float) -> None:
    with Limiter("memory://", [Rule("r", capacity=capacity, refill_per_sec=rate)], clock=ManualClock()) as limiter:
        limiter.check("acme", "r", capacity)
        refusal = denial(limiter.check("acme", "r", min(cost, capacity)), dialects(["ietf-11"]), jitter=jitter)
    assert re.fullmatch(r"[1-9][0-9]*", dict(refusal.headers)["retry-after"])


@pytest.mark.parametrize("extension", [True, False])
async def test_HT_13_handshakes_count_and_are_refused_before_they_are_accepted(
    clock: ManualClock, extension: bool
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope = {
        "type": "websocket", "path": "/ws", "raw_path": b"/ws", "headers": [], "client": ("192.0.2.1", 1),
        "extensions": {"websocket.http.response": {}} if extension else {},
    }  # fmt: skip
    first_messages = []
    async with AsyncLimiter("memory://", [Rule("ws", limit="2/minute")], clock=clock) as limiter:
        middleware = RateLimitMiddleware(app, limiter)
        for _ in range(4):
            sent: list[Any] = []

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            await middleware(dict(scope), receive, send)
            first_messages.append(sent[0])
        await middleware({"type": "lifespan"}, receive, send)
    refused = ("websocket.http.response.start", 429) if extension else ("websocket.close", 1008)
    assert [message["type"] for message in first_messages] == ["websocket.accept"] * 2 + [refused[0]] * 2
    assert first_messages[3].get("status", first_messages[3].get("code")) == refused[1]


async def test_HT_14_a_refusal_repeats_nothing_of_the_request(clock: ManualClock) -> None:
    class Keys:
        def find(self, api_key: str, /) -> tuple[str, None, None]:
            return "client-canary", None, None

    headers = {"X-Secret": "canary", "Cookie": "canary=1", "Authorization": "canary", "X-API-Key": "key-canary"}
    app = App()
    async with limited("0/minute", app, clock, identify=ApiKeyIdentity(Keys())) as client:
        answer = await client.get("/canary?canary", headers=headers)
    assert (answer.status_code, app.calls) == (429, 0)
    assert "canary" not in f"{answer.headers}{answer.text}"
    assert "internal-rule" not in f"{answer.headers}{answer.text}"
    assert answer.json()["violated-policies"] == ["api"]
    assert "retry-after" not in answer.headers


async def test_HT_14_a_key_with_line_breaks_cannot_reach_a_header(clock: ManualClock) -> None:
    class Keys:
        def find(self, api_key: str, /) -> tuple[str, None, None]:
            return api_key, None, None

    async def receive() -> Any:
        return {"type": "http.request"}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": "/", "raw_path": b"/", "client": ("192.0.2.1", 1),
        "headers": [(b"x-api-key", b"a\r\nSet-Cookie: canary=1")],
    }  # fmt: skip
    async with AsyncLimiter("memory://", [Rule("r", limit="0/minute")], clock=clock) as limiter:
        await RateLimitMiddleware(App(), limiter, ApiKeyIdentity(Keys()))(scope, receive, send)
    assert sent[0]["status"] == 429
    assert b"canary" not in repr(sent).encode()
    assert all(sign not in name + value for name, value in sent[0]["headers"] for sign in (b"\r", b"\n"))


async def test_TT_10_a_handler_slower_than_the_window_still_tells_its_decision(clock: ManualClock) -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        clock.advance(3)
        await App()(scope, receive, send)

    async with limited("1/second", slow, clock) as client:
        answer = await client.get("/")
    assert answer.status_code == 200
    assert (answer.headers["x-ratelimit-remaining"], answer.headers["x-ratelimit-reset"]) == ("0", "1")


async def test_RU_05_one_charge_however_often_the_limiter_is_in_the_way(clock: ManualClock) -> None:
    async with AsyncLimiter("memory://", [Rule("r", limit="3/minute")], clock=clock) as limiter:
        inner = RateLimitMiddleware(App(), limiter)

        async def redirecting(scope: Any, receive: Any, send: Any) -> None:
            """Passes the request on inside the app, as mounts and internal redirects do."""
            await inner({**scope, "path": "/elsewhere", "raw_path": b"/elsewhere"}, receive, send)

        transport = httpx2.ASGITransport(RateLimitMiddleware(redirecting, limiter))
        async with httpx2.AsyncClient(transport=transport, base_url="http://api.example") as client:
            answers = [await client.get("/") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers.get_list("x-ratelimit-remaining") for answer in answers] == [["2"], ["1"], ["0"], ["0"]]
