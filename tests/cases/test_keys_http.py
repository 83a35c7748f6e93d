"""Public faults in telling clients apart over HTTP, none of which is ours. Each test is named after its case."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import redis

from limen.adapters.asgi import RateLimitMiddleware
from limen.adapters.identity import ApiKeyIdentity
from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from limen.testing import ManualClock

Headers = Sequence[tuple[str, str]]
Ask = Callable[..., Any]

B = [("X-Forwarded-For", "203.0.113.66"), ("X-Forwarded-For", "198.51.100.7, 10.0.0.2")]
A = [("X-Forwarded-For", "203.0.113.66, 198.51.100.7, 10.0.0.2")]


class App:
    """Answers 200."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def limited(limit: str, clock: ManualClock, store: str = "memory://", **options: Any) -> AsyncIterator[Ask]:
    """`await ask(peer, headers)` gives the status of a request from that peer, under one rule."""
    observer = options.pop("observer", None)
    rules = [Rule("r", limit=limit, key_by=options.pop("key_by", ["client"]))]
    async with AsyncLimiter(store, rules, clock=clock, observer=observer) as limiter:
        middleware = RateLimitMiddleware(App(), limiter, **options)

        async def ask(peer: Any, headers: Headers = ()) -> int:
            transport = httpx2.ASGITransport(middleware, client=peer)
            async with httpx2.AsyncClient(transport=transport, base_url="http://api.example") as client:
                return (await client.get("/", headers=list(headers))).status_code

        yield ask


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("10.0.0.1", A, "198.51.100.7"),
        ("10.0.0.1", B, "198.51.100.7"),
        ("10.0.0.1", [("X-Forwarded-For", "10.0.0.5")], "10.0.0.5"),
        ("10.0.0.1", [("X-Forwarded-For", "")], "10.0.0.1"),
        ("10.0.0.1", [("X-Forwarded-For", "garbage, 10.0.0.2")], "10.0.0.2"),
        ("192.0.2.10", A, "192.0.2.10"),
    ],
    ids="abcdef",
)  # fmt: skip
async def test_KY_04_the_first_untrusted_address_from_the_right_is_the_client(
    clock: ManualClock, peer: str, headers: Headers, client: str
) -> None:
    async with limited("1/minute", clock, trusted_proxies=["10.0.0.0/8"]) as ask:
        assert await ask((peer, 1), headers) == 200
        direct = (client, 1) if not client.startswith("10.") else ("10.9.9.9", 1)
        same = [] if direct[0] == client else [("X-Forwarded-For", client)]
        assert await ask(direct, same) == 429
        assert await ask(("203.0.113.66", 1)) == 200


async def test_KY_05_the_port_is_no_part_of_a_client(clock: ManualClock) -> None:
    async with limited("2/minute", clock) as ask:
        statuses = [await ask(("192.0.2.5", port)) for port in range(50001, 50011)]
    assert statuses == [200] * 2 + [429] * 8


@pytest.mark.parametrize(
    ("entry", "peer"),
    [("192.0.2.5:41234", "192.0.2.5"), ("[2001:db8::5]:443", "2001:db8::5"), ("2001:db8::5", "2001:db8::5")],
)
async def test_KY_05_forwarded_addresses_may_have_a_port(clock: ManualClock, entry: str, peer: str) -> None:
    async with limited("1/minute", clock, trusted_proxies=["10.0.0.0/8"]) as ask:
        assert await ask(("10.0.0.1", 1), [("X-Forwarded-For", entry)]) == 200
        assert await ask((peer, 9)) == 429


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Forwarded-For", "127.0.0.1, 203.0.113.9")],
        [("Forwarded", "for=127.0.0.1"), ("X-Forwarded-For", "203.0.113.9")],
    ],
)
async def test_KY_07_a_forged_address_is_not_exempt(clock: ManualClock, headers: Headers) -> None:
    options: dict[str, Any] = {"trusted_proxies": ["10.0.0.1"], "exempt": ["127.0.0.1", "::1"]}
    async with limited("2/minute", clock, **options) as ask:
        statuses = [await ask(("10.0.0.1", 1), headers) for _ in range(5)]
        assert statuses == [200, 200, 429, 429, 429]
        assert [await ask((local, 1)) for local in ("127.0.0.1", "::1") for _ in range(3)] == [200] * 6


@pytest.mark.parametrize("peer", [None, ("", 0), ("unix:", None)])
async def test_KY_08_without_a_peer_there_is_one_fallback_and_one_log_line(
    clock: ManualClock, peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    forwarded = [("X-Forwarded-For", "203.0.113.9")]
    with caplog.at_level(logging.WARNING, "limen"):
        async with limited("2/minute", clock) as ask:
            assert [await ask(peer, forwarded) for _ in range(3)] == [200, 200, 429]
            assert await ask(("203.0.113.9", 1)) == 200
    assert len(caplog.records) == 1
    async with limited("1/minute", clock, trust_unix=True) as ask:
        assert await ask(peer, forwarded) == 200
        assert await ask(peer, forwarded) == 429
        assert await ask(peer, [("X-Forwarded-For", "203.0.113.10")]) == 200
        assert await ask(("203.0.113.9", 1), [("X-Forwarded-For", "203.0.113.77")]) == 429


@pytest.mark.parametrize("key_by", [["client"], ["header.X-Api-Key"]])
async def test_KY_11_the_anonymous_count_by_address_and_keys_stay_secret(
    clock: ManualClock, valkey_url: str, caplog: pytest.LogCaptureFixture, key_by: list[str]
) -> None:
    class Keys:
        def find(self, api_key: str, /) -> tuple[str, None, None] | None:
            return ("acme", None, None) if api_key == "secret-123" else None

    observer = PrometheusObserver()
    options: dict[str, Any] = {"key_by": key_by, "identify": ApiKeyIdentity(Keys()), "observer": observer}
    with caplog.at_level(logging.DEBUG, "limen"):
        async with limited("2/minute", clock, store=valkey_url, **options) as ask:
            assert [await ask(("192.0.2.1", port)) for port in range(3)] == [200, 200, 429]
            assert await ask(("192.0.2.2", 1)) == 200
            assert await ask(("192.0.2.1", 1), [("X-API-Key", "secret-123")]) == 200
            assert await ask(("192.0.2.1", 1), [("X-API-Key", "")]) == 429
    with redis.Redis.from_url(valkey_url.replace("valkey", "redis")) as store:
        keys = [key.decode("latin-1") for key in store.scan_iter("*")]
        assert keys
        assert all(store.pttl(key) > 0 for key in keys)
    assert not any("secret-123" in text for text in [*keys, caplog.text, observer.render().decode()])


async def test_KY_11_made_up_keys_do_not_get_a_bucket_each(clock: ManualClock) -> None:
    class Keys:
        def find(self, api_key: str, /) -> None:
            return None

    async with limited("2/minute", clock, identify=ApiKeyIdentity(Keys())) as ask:
        statuses = [await ask(("192.0.2.1", 1), [("X-API-Key", f"guess-{number}")]) for number in range(5)]
    assert statuses == [200, 200, 429, 429, 429]
