"""What could be read in two ways does not get in; what pretends to come from us is taken out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from limen.adapters.edge import EdgeChecks


async def call(path: bytes = b"/a", *headers: tuple[bytes, bytes], **changes: Any) -> tuple[int, Any]:
    """The status, and the headers that got through or the problem."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append(scope["headers"])

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope = {
        "type": "http",
        "method": "GET",
        "http_version": "1.1",
        "raw_path": path,
        "query_string": b"",
        "headers": [(b"host", b"api.example"), *headers],
    }
    await EdgeChecks(app)({**scope, **changes}, receive, send)
    if len(sent) == 1:
        return 200, sent[0]
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.mark.parametrize(
    "path", [b"/a%2Fb", b"/%2e%2e/a", b"/a\\b", b"/a%00", b"/%252e", b"/a%0d%0aX:1", b"*", b"a", b"/\xc3\xa9", b"/a b"]
)
async def test_ambiguous_paths_are_400(path: bytes) -> None:
    status, problem = await call(path)
    assert status == 400
    assert problem["status"] == 400


@pytest.mark.parametrize("path", [b"/", b"/a/./b/../c//d", b"/a;v=1", b"/a%20b", b"/~a/%7Eb", b"/a?"])
async def test_plain_paths_get_through(path: bytes) -> None:
    assert (await call(path))[0] == 200


@pytest.mark.parametrize(
    "hosts",
    [[], [b"a", b"a"], [b"a", b"b"], [b""], [b"a/b"], [b"a b"], [b"a:99999999"], [b"u@a"], [b"a, b"], [b"[::1"]],
)
async def test_a_host_that_is_missing_doubled_or_odd_is_400(hosts: list[bytes]) -> None:
    assert (await call(headers=[(b"host", host) for host in hosts]))[0] == 400


@pytest.mark.parametrize("host", [b"api.example", b"API.example:8080", b"[2001:db8::1]:443", b"192.0.2.1", b"a_b.test"])
async def test_hosts_get_through(host: bytes) -> None:
    assert (await call(headers=[(b"host", host)]))[0] == 200


async def test_http_1_0_needs_no_host() -> None:
    assert (await call(headers=[], http_version="1.0"))[0] == 200


@pytest.mark.parametrize("named", [b"X-Forwarded-For", b"close, x-api-key", b"Authorization", b"keep-alive,Host"])
async def test_connection_cannot_remove_who_the_client_is(named: bytes) -> None:
    assert (await call(b"/a", (b"connection", named)))[0] == 400


async def test_connection_may_name_other_fields() -> None:
    assert (await call(b"/a", (b"connection", b"keep-alive, X-Hop")))[0] == 200


async def test_aliases_and_our_own_names_are_dropped() -> None:
    _, headers = await call(
        b"/a", (b"x_forwarded_for", b"1"), (b"x-limen-status", b"1"), (b"x-api_key", b"1"), (b"x-kept", b"1")
    )
    assert headers == [(b"host", b"api.example"), (b"x-kept", b"1")]


async def test_tunnels_are_405() -> None:
    assert (await call(method="CONNECT"))[0] == 405


async def test_a_handshake_is_refused_in_the_same_way() -> None:
    status, problem = await call(b"/a%2Fb", type="websocket", extensions={"websocket.http.response": {}})
    assert (status, problem["status"]) == (400, 400)
