"""The proxy passes everything through as it is, over real sockets, and answers for an upstream that does not."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import httpx2
import pytest

from limen.adapters.asgi import RateLimitMiddleware
from limen.adapters.edge import EdgeChecks
from limen.adapters.identity import ApiKeyIdentity
from limen.adapters.proxy import ReverseProxy
from limen.engine.aio import AsyncLimiter
from limen.errors import MissingExtra, SettingsError, UsageError

Serve = Callable[..., Awaitable[str]]
MakeLimiter = Callable[..., Awaitable[AsyncLimiter]]
Until = Callable[[Callable[[], object]], Awaitable[None]]


class Upstream:
    """An ASGI app that records what it got and answers by the path."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.gone = 0
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.requests.append(scope)
        answer = getattr(self, f"_{scope['path'].strip('/').split('/')[0]}", self._echo)
        await answer(scope, receive, send)

    async def _echo(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = [(b"set-cookie", b"a=1"), (b"content-length", b"%d" % len(body)), (b"set-cookie", b"b=2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _slow(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers with one piece, and the rest only when the test says so."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await self.go_on.wait()
        await send({"type": "http.response.body", "body": b"second"})

    async def _silent(self, scope: Any, receive: Any, send: Any) -> None:
        """Never answers; notes when the caller has gone."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone += 1

    async def _gzip(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-encoding", b"gzip"), (b"connection", b"x-hop"), (b"x-hop", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"not really gzip"})

    async def _redirect(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"location", b"http://evil.example/"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 302, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _early(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers before it has read the body."""
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def _broken(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
async def url(serve: Serve, upstream: Upstream) -> str:
    return await serve(ReverseProxy(await serve(upstream)), lifespan="on")


def got(upstream: Upstream) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in upstream.requests[-1]["headers"]}


async def raw(url: str, request: bytes) -> bytes:
    """The whole answer to bytes on a socket of our own."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_requests_and_responses_go_through_as_they_are(
    url: str, upstream: Upstream, client: httpx2.AsyncClient
) -> None:
    response = await client.post(f"{url}/a%20b/c;v=1?x=%2F&y", content=b"body", headers={"X-A": "1"})
    assert response.status_code == 200
    assert response.content == b"body"
    assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
    scope = upstream.requests[0]
    assert (scope["method"], scope["raw_path"], scope["query_string"]) == ("POST", b"/a%20b/c;v=1", b"x=%2F&y")
    headers = got(upstream)
    assert headers["x-a"] == "1"
    assert headers["content-length"] == "4"
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert headers["x-forwarded-host"] == url.removeprefix("http://")
    assert headers["x-forwarded-proto"] == "http"
    assert "transfer-encoding" not in headers


async def test_the_client_library_adds_nothing(url: str, upstream: Upstream) -> None:
    answer = await raw(url, b"POST /a HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert set(got(upstream)) == {"host", "content-length", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"}


async def test_dots_and_doubled_slashes_reach_the_upstream_resolved(url: str, upstream: Upstream) -> None:
    await raw(url, b"GET //x/../login/./ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert upstream.requests[0]["raw_path"] == b"/login/"


async def test_an_absolute_target_never_chooses_the_upstream(url: str, upstream: Upstream) -> None:
    answer = await raw(url, b"GET http://evil.example:81/x HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert upstream.requests[0]["raw_path"] == b"/x"
    assert got(upstream)["host"].startswith("127.0.0.1:")


async def test_redirects_and_encodings_are_not_touched(
    url: str, upstream: Upstream, client: httpx2.AsyncClient
) -> None:
    response = await client.get(f"{url}/redirect")
    assert (response.status_code, response.headers["location"]) == (302, "http://evil.example/")
    async with client.stream("GET", f"{url}/gzip") as response:
        assert b"".join([piece async for piece in response.aiter_raw()]) == b"not really gzip"
        assert response.headers["content-encoding"] == "gzip"
        assert "x-hop" not in response.headers


async def test_cookies_of_one_client_never_reach_another(
    url: str, upstream: Upstream, client: httpx2.AsyncClient
) -> None:
    await client.get(f"{url}/a")
    await raw(url, b"GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert "cookie" not in got(upstream)


async def test_responses_stream_piece_by_piece(url: str, upstream: Upstream, client: httpx2.AsyncClient) -> None:
    async with client.stream("GET", f"{url}/slow") as response:
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"first"
        upstream.go_on.set()
        assert await anext(pieces) == b"second"


async def test_request_bodies_stream_chunked(url: str, upstream: Upstream, client: httpx2.AsyncClient) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 10_000

    response = await client.put(f"{url}/a", content=body())
    assert len(response.content) == 500_000
    assert got(upstream)["transfer-encoding"] == "chunked"


async def test_an_early_answer_is_passed_on(url: str, client: httpx2.AsyncClient) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 1000

    assert (await client.post(f"{url}/early", content=body())).status_code == 413


async def test_expect_100_continue_is_answered_by_the_gateway(url: str, upstream: Upstream) -> None:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/a", data=b"body", expect100=True) as response:
        assert await response.read() == b"body"
    assert "expect" not in got(upstream)


async def test_head_has_the_length_and_no_body(url: str, client: httpx2.AsyncClient) -> None:
    response = await client.head(f"{url}/a")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-length"] == "0"


async def test_connections_to_the_upstream_are_used_again(
    url: str, upstream: Upstream, client: httpx2.AsyncClient
) -> None:
    for _ in range(3):
        await client.get(f"{url}/a")
    assert len({scope["client"] for scope in upstream.requests}) == 1


async def test_a_client_that_hangs_up_takes_its_request_with_it(url: str, upstream: Upstream, until: Until) -> None:
    host, port = url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /silent HTTP/1.1\r\nHost: a\r\n\r\n")
    await until(lambda: upstream.requests)
    writer.close()
    await writer.wait_closed()
    await until(lambda: upstream.gone)


async def test_a_client_that_hangs_up_in_its_body_takes_its_request_with_it(
    url: str, upstream: Upstream, until: Until
) -> None:
    host, port = url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /silent HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
    await until(lambda: upstream.requests)
    writer.close()
    await writer.wait_closed()
    await until(lambda: upstream.gone)


async def test_an_upstream_that_is_not_there_is_502(serve: Serve, client: httpx2.AsyncClient) -> None:
    response = await client.get(await serve(ReverseProxy("http://127.0.0.1:1"), lifespan="on"))
    assert response.status_code == 502
    assert response.headers["content-type"] == "application/problem+json"
    assert "127.0.0.1" not in response.text


async def test_an_upstream_that_is_silent_is_504(serve: Serve, upstream: Upstream, client: httpx2.AsyncClient) -> None:
    url = await serve(ReverseProxy(await serve(upstream), timeout_s=0.05), lifespan="on")
    response = await client.get(f"{url}/silent")
    assert response.status_code == 504


async def test_a_response_that_breaks_off_is_broken_for_the_client_too(url: str, client: httpx2.AsyncClient) -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        await client.get(f"{url}/broken")


async def test_a_header_that_cannot_be_passed_on_is_400(url: str, upstream: Upstream) -> None:
    answer = await raw(url, b"GET / HTTP/1.1\r\nHost: a\r\nX-Name: \xe9\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert upstream.requests == []


async def test_a_path_in_front_and_trusted_proxies(
    serve: Serve, upstream: Upstream, client: httpx2.AsyncClient
) -> None:
    proxy = ReverseProxy(await serve(upstream) + "/base/", trusted_proxies=["127.0.0.0/8"])
    url = await serve(proxy, lifespan="on")
    await client.get(f"{url}/a", headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"})
    assert upstream.requests[0]["raw_path"] == b"/base/a"
    assert got(upstream)["x-forwarded-proto"] == "https"
    assert got(upstream)["x-forwarded-for"] == "203.0.113.9, 127.0.0.1"


@pytest.mark.parametrize(
    "upstream", ["127.0.0.1:9000", "ftp://a", "http://", "http://u:p@a", "http://a/?x=1", "http://a/#f", "http://a:x"]
)
def test_an_upstream_that_is_no_plain_url_is_refused(upstream: str) -> None:
    with pytest.raises(SettingsError):
        ReverseProxy(upstream)


def test_trusted_proxies_are_checked_at_once() -> None:
    with pytest.raises(UsageError):
        ReverseProxy("http://a", trusted_proxies=["x"])


def test_without_its_library_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "limen.adapters.proxy")
    with pytest.raises(MissingExtra, match=r"limen\[service\]"):
        importlib.import_module("limen.adapters.proxy")


async def test_a_gateway_refuses_before_the_upstream_and_400_costs_nothing(
    serve: Serve, make_limiter: MakeLimiter, upstream: Upstream, client: httpx2.AsyncClient
) -> None:
    class Keys:
        def find(self, api_key: str, /) -> tuple[str, None, None] | None:
            return ("acme", None, None) if api_key == "secret-1" else None

    limited = RateLimitMiddleware(
        ReverseProxy(await serve(upstream)), await make_limiter("2/minute"), ApiKeyIdentity(Keys())
    )
    url = await serve(EdgeChecks(limited), lifespan="on")
    key = ("X-API-Key", "secret-1")
    statuses = []
    for path, headers in [
        ("/a%2Fb", [key]),
        ("/a", [key, key]),
        ("/a", [key, ("Connection", "x-api-key")]),
        ("/a", [key, ("X_API_KEY", "other")]),
        ("/a", [key]),
        ("/a", [key]),
    ]:
        statuses.append((await client.get(url + path, headers=headers)).status_code)
    assert statuses == [400, 400, 400, 200, 200, 429]
    assert len(upstream.requests) == 2
    assert all(b"x_api_key" not in dict(scope["headers"]) for scope in upstream.requests)
