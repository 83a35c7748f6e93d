"""The middleware refuses before the app is touched, tells what was decided, and charges once."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
import websockets

from limen.adapters.asgi import RateLimitMiddleware
from limen.adapters.identity import BadIdentity, Identity
from limen.core.decision import Decision, Policy
from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.errors import UsageError
from limen.rules.request import Request

Serve = Callable[..., Awaitable[str]]
MakeLimiter = Callable[..., Awaitable[AsyncLimiter]]


class App:
    """Counts what reaches it and answers with what it was told to."""

    def __init__(self, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.status, self.headers = status, headers
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": 1000})
        else:
            await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
            await send({"type": "http.response.body", "body": b"hello"})

    @property
    def requests(self) -> int:
        return sum(scope["type"] != "lifespan" for scope in self.scopes)


def fields(response: httpx2.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if "ratelimit" in name or name == "retry-after"}


async def test_allowed_responses_tell_and_denied_ones_never_reach_the_app(
    serve: Serve, make_limiter: MakeLimiter, client: httpx2.AsyncClient
) -> None:
    app = App()
    url = await serve(RateLimitMiddleware(app, await make_limiter("2/minute")))
    first, second, third = [await client.get(url) for _ in range(3)]
    assert [first.status_code, second.status_code, third.status_code] == [200, 200, 429]
    assert fields(first) == {
        "ratelimit": '"default";r=1;t=30',
        "ratelimit-policy": '"default";q=2;w=60',
        "x-ratelimit-limit": "2",
        "x-ratelimit-remaining": "1",
        "x-ratelimit-reset": "30",
    }
    assert fields(third)["retry-after"] in ("30", "31", "32", "33")
    assert third.headers["content-type"] == "application/problem+json"
    assert third.json()["violated-policies"] == ["default"]
    assert app.requests == 2


async def test_a_closed_rule_without_its_store_answers_503(serve: Serve, client: httpx2.AsyncClient) -> None:
    class Away:
        async def __aenter__(self) -> None: ...

        async def check_request(self, request: Request) -> Decision:
            return Decision(
                False, None, None, 1000, None, "r", "store_unavailable", "none", True, policy=Policy("r", 1, 1)
            )

    app = App()
    response = await client.get(await serve(RateLimitMiddleware(app, Away())))
    assert response.status_code == 503
    assert fields(response) == {"retry-after": "1"}
    assert app.requests == 0


async def test_the_rules_see_the_request_as_it_was_sent(serve: Serve, client: httpx2.AsyncClient) -> None:
    seen: list[Request] = []

    class Looking:
        async def __aenter__(self) -> None: ...

        async def check_request(self, request: Request) -> Decision:
            seen.append(request)
            return Decision(True, None, None, 0, None, None, "allowed", "none")

    url = await serve(RateLimitMiddleware(App(), Looking(), lambda scope: Identity("acme", "pro", "ann")))
    headers = [("X-Colour", "réd".encode()), ("x-colour", b"blue"), ("Host", b"api.example:81")]
    await client.request("DELETE", f"{url}/a%20b/./c?q=1", headers=headers)
    request = seen[0]
    assert request[:2] == ("DELETE", "/a%20b/./c") or request[:2] == ("DELETE", "/a%20b/c")  # the client may resolve
    assert request[2:7] == ("api.example:81", "acme", "pro", "ann", "127.0.0.1")
    assert request.headers["x-colour"] == "réd".encode().decode("latin-1") + ", blue"
    assert request.headers.get("x_colour") is None
    assert "x-colour" in list(request.headers)
    assert len(request.headers) == len(list(request.headers))


async def test_an_identity_counts_apart_from_its_address(
    serve: Serve, make_limiter: MakeLimiter, client: httpx2.AsyncClient
) -> None:
    def identify(scope: Any) -> Identity | None:
        names = [value.decode() for name, value in scope["headers"] if name == b"x-name"]
        return Identity(names[0]) if names else None

    url = await serve(RateLimitMiddleware(App(), await make_limiter("1/minute"), identify))
    names = ["a", "b", "a", None, None]
    answers = [await client.get(url, headers={"x-name": name} if name else {}) for name in names]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 200, 429]


async def test_a_contradictory_identity_is_400_and_costs_nothing(
    serve: Serve, make_limiter: MakeLimiter, client: httpx2.AsyncClient
) -> None:
    limiter = await make_limiter("1/minute")
    app = App()
    url = await serve(RateLimitMiddleware(app, limiter, lambda scope: BadIdentity("x-api-key is there 2 times")))
    for _ in range(2):
        response = await client.get(url)
        assert response.status_code == 400
        assert response.json()["detail"] == "x-api-key is there 2 times"
    assert app.requests == 0


async def test_an_identify_that_raises_is_counted_by_address_and_logged(
    serve: Serve, make_limiter: MakeLimiter, client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(scope: Any) -> Identity:
        raise ValueError("secret-1")

    url = await serve(RateLimitMiddleware(App(), await make_limiter("1/minute"), broken))
    with caplog.at_level(logging.ERROR, "limen"):
        assert [(await client.get(url)).status_code for _ in range(3)] == [200, 429, 429]
    assert len(caplog.records) == 1
    assert "secret-1" not in caplog.text


async def test_redirects_carry_no_fields(serve: Serve, make_limiter: MakeLimiter, client: httpx2.AsyncClient) -> None:
    app = App(302, ((b"location", b"/elsewhere"),))
    response = await client.get(await serve(RateLimitMiddleware(app, await make_limiter("2/minute"))))
    assert response.status_code == 302
    assert fields(response) == {}


async def test_exempt_paths_and_networks_are_not_counted(
    serve: Serve, make_limiter: MakeLimiter, client: httpx2.AsyncClient
) -> None:
    limiter = await make_limiter("1/minute")
    url = await serve(RateLimitMiddleware(App(), limiter, exempt=["/healthz"]))
    statuses = [
        (await client.get(url + path)).status_code for path in ("/healthz", "/healthz/", "/a", "/healthz", "/a")
    ]
    assert statuses == [200, 200, 200, 200, 429]
    url = await serve(RateLimitMiddleware(App(), limiter, exempt=["127.0.0.0/8"]))
    assert [(await client.get(url)).status_code for _ in range(3)] == [200] * 3


async def test_the_app_sees_the_decision_and_two_limiters_both_charge(
    serve: Serve, make_limiter: MakeLimiter, client: httpx2.AsyncClient
) -> None:
    app = App()
    inner, outer = await make_limiter("5/minute"), await make_limiter("3/minute")
    url = await serve(RateLimitMiddleware(RateLimitMiddleware(app, inner), outer, dialects=["github"]))
    response = await client.get(url)
    assert app.scopes[-1]["limen.decision"].limit == 5
    assert response.headers.get_list("x-ratelimit-limit") == ["5"]
    assert [(await client.get(url)).status_code for _ in range(3)] == [200, 200, 429]


async def test_a_denied_websocket_is_refused_with_its_fields(serve: Serve, make_limiter: MakeLimiter) -> None:
    app = App()
    url = await serve(RateLimitMiddleware(app, await make_limiter("1/minute")))
    async with websockets.connect(url.replace("http", "ws")):
        pass
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(url.replace("http", "ws"))
    response = refused.value.response
    assert response.status_code == 429
    assert response.headers["x-ratelimit-remaining"] == "0"
    assert json.loads(response.body or b"")["status"] == 429
    assert app.requests == 1


async def test_lifespan_reaches_the_app_untouched(serve: Serve, make_limiter: MakeLimiter) -> None:
    app = App()
    await serve(RateLimitMiddleware(app, await make_limiter("1/minute")), lifespan="on")
    assert [scope["type"] for scope in app.scopes] == ["lifespan"]


def test_limiters_and_functions_that_would_block_are_refused(clock: Any) -> None:
    async def identify(scope: Any) -> Identity:
        return Identity()

    class Identify:
        async def __call__(self, scope: Any) -> Identity:
            return Identity()

    with Limiter("memory://", clock=clock) as limiter, pytest.raises(UsageError, match="AsyncLimiter"):
        RateLimitMiddleware(App(), limiter)  # type: ignore[arg-type]
    for coroutine in (identify, Identify()):
        with pytest.raises(UsageError, match="plain function"):
            RateLimitMiddleware(App(), AsyncLimiter(), coroutine)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="dialect"):
        RateLimitMiddleware(App(), AsyncLimiter(), dialects=["ietf"])
