"""Bytes that no client should send, over sockets of our own, to a real gateway and a real service.

Whatever comes, it has its answer, the upstream sees only what was charged, and the next request works.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from limen.admin.repository import Repository

RULES = {
    "all": {"id": "all", "key_by": ["client"], "limit": "1/day burst 10000"},
    "none": {"id": "none", "key_by": ["client"], "limit": 0, "match": {"path": "/none"}},
}
SHORT_BOUNDS = """
from limen.adapters.check_api import CheckApi
from limen.admin import http_api
from limen.apps import http_protocol
CheckApi.__init__.__kwdefaults__["body_timeout_s"] = http_api.BODY_SECONDS = http_protocol.HEAD_SECONDS = 0.5
from limen.apps.cli import main
main()
"""
"""The same program with a patience that a test can wait for."""
GET = b"GET /fine HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
READY = b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class Answer(NamedTuple):
    status: int
    head: str
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Line:
    """A connection to one process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def __aenter__(self) -> Line:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def answer(self, head_only: bool = False) -> Answer:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)).decode("latin-1")
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        size = 0 if head_only else int(fields.get("content-length", 0))
        return Answer(int(head.split(" ", 2)[1]), head.lower(), await self.reader.readexactly(size))

    async def all_statuses(self) -> list[int]:
        """Of every answer until the other side hangs up."""
        found = []
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                found.append((await self.answer()).status)
        return found


async def connect(port: int) -> Line:
    return Line(*await asyncio.open_connection("127.0.0.1", port))


async def ask(port: int, request: bytes) -> Answer:
    async with await connect(port) as line:
        line.writer.write(request)
        return await line.answer(request.startswith(b"HEAD"))


def post(path: str, body: bytes, *fields: str, method: str = "POST") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(head).encode() + body


@pytest.fixture
async def shared(tmp_path: Path, valkey_url: str) -> list[str]:
    url = f"sqlite:///{tmp_path / 'rules.db'}"
    async with Repository(url) as repository, repository.change() as change:
        for name, rule in RULES.items():
            await change.put_rule(name, json.dumps(rule))
    return ["--store", valkey_url, "--rules-db", url, "--deadline-ms", "1000"]


@pytest.fixture
def calm(tmp_path: Path) -> Iterator[None]:
    """After the test: no process had a word to say about what it was sent."""
    yield
    assert [file.read_text() for file in tmp_path.glob("stderr-*.txt") if file.stat().st_size] == []


@pytest.fixture
def gateway(limen: Callable[..., Any], shared: list[str], upstream: Any, calm: None) -> int:
    program = [sys.executable, "-c", SHORT_BOUNDS]
    running = limen("gateway", "--upstream", upstream.url, *shared, ready="gateway on", program=program)
    return int(running.port)


@pytest.fixture
def service(limen: Callable[..., Any], shared: list[str], calm: None) -> int:
    program = [sys.executable, "-c", SHORT_BOUNDS]
    return int(limen("service", *shared, ready="service on", program=program).port)


PLAIN_HEAD = b"POST /x HTTP/1.1\r\nHost: a\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
REFUSED = {
    "a length and chunks": PLAIN_HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": PLAIN_HEAD + b"Content-Length: 0\r\nContent-Length: 35\r\n\r\n",
    "a coding in disguise": PLAIN_HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare LF": b"GET /x HTTP/1.1\nHost: a\n\n",
    "obs-fold": b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n",
    "a space before the colon": PLAIN_HEAD + b"Content-Length : 35\r\n\r\n",
    "NUL in a value": b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: b\x00c\r\n\r\n",
    "CR in a value": b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: b\rX-B: c\r\n\r\n",
    "a lower-case method": b"get /x HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown method": b"BREW /x HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    "another host in the target": b"GET http://evil.example/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}
REFUSED_ALONE = {
    "OPTIONS *": b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "no Host": b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n",
    "two Hosts": b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
    "an encoded slash": b"GET /a%2Fb HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "a Connection that names the client": (
        b"GET /x HTTP/1.1\r\nHost: a\r\nX-API-Key: k\r\nConnection: close, X-API-Key\r\n\r\n"
    ),
    "two API keys": b"GET /x HTTP/1.1\r\nHost: a\r\nX-API-Key: k\r\nX-API-Key: l\r\nConnection: close\r\n\r\n",
}


async def test_S26_a_gateway_answers_the_unclear_with_400_and_forwards_nothing(gateway: int, upstream: Any) -> None:
    found: dict[str, list[int]] = {}
    for name, request in {**REFUSED, **REFUSED_ALONE}.items():
        async with await connect(gateway) as line:
            line.writer.write(request + (SMUGGLED if name in REFUSED else b""))
            found[name] = await line.all_statuses()
        assert (await ask(gateway, GET)).status == 200
    assert found == {name: [400] for name in found}
    assert upstream.requests == len(found)


async def test_S26_a_body_is_never_a_second_request(limen: Callable[..., Any], shared: list[str], calm: None) -> None:
    seen: list[tuple[str, bytes]] = []

    async def note(request: web.BaseRequest) -> web.Response:
        seen.append((request.path, await request.read()))
        return web.Response()

    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
    requests = {
        "a length": PLAIN_HEAD + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
        "chunks": PLAIN_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk,
        "an upgrade that nobody speaks": (
            PLAIN_HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED
        ),
        "a GET with a body": b"GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
    }
    async with RawTestServer(note) as api:
        gateway = limen("gateway", "--upstream", str(api.make_url("")), *shared, ready="gateway on").port
        for name, request in requests.items():
            async with await connect(gateway) as line:
                line.writer.write(request)
                answer = await line.answer()
                line.writer.write(GET)
                assert (name, await line.all_statuses()) == (name, [200])
            assert f"x-ratelimit-remaining: {10_000 - len(seen) + 1}\r\n" in answer.head, name
    assert seen == [("/x", SMUGGLED), ("/fine", b"")] * len(requests)


async def test_an_absolute_target_goes_to_the_upstream_and_nowhere_else(gateway: int, upstream: Any) -> None:
    request = b"GET http://evil.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    assert (await ask(gateway, request)).status == 200
    assert upstream.requests == 1


async def test_S27_heads_without_measure_or_end_are_cut_off(gateway: int, upstream: Any) -> None:
    huge = {
        "one line of a megabyte": b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: " + b"a" * 1_000_000,
        "lines without end": b"GET /x HTTP/1.1\r\nHost: a\r\n" + b"X-A: b\r\n" * 100_000,
        "a name without end": b"GET /x HTTP/1.1\r\nHost: a\r\n" + b"a" * 1_000_000,
        "a target without end": b"GET /" + b"a" * 1_000_000,
        "blank lines without end": b"\r\n" * 500_000,
    }
    for name, request in huge.items():
        assert (name, (await ask(gateway, request)).status) == (name, 431)
    async with await connect(gateway) as line:
        line.writer.write(GET.replace(b"Connection: close\r\n", b""))
        assert (await line.answer()).status == 200
        line.writer.write(huge["one line of a megabyte"])
        assert await line.all_statuses() == [431]
    assert (await ask(gateway, b"GET /x HTTP/1.1\r\nHost: a\r\nX-")).status == 408
    assert upstream.requests == 1
    assert (await ask(gateway, GET)).status == 200


async def test_bodies_without_end_are_408_and_too_large_ones_413_before_they_are_there(service: int) -> None:
    begun = b'{"client": '
    for path, method in (("/v1/check", "POST"), ("/v1/check/batch", "POST"), ("/admin/rules/a", "PUT")):
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ".encode()
        assert (path, (await ask(service, head + b"500\r\n\r\n" + begun)).status) == (path, 408)
        assert (path, (await ask(service, head + b"100000000\r\n\r\n" + begun)).status) == (path, 413)
    async with await connect(service) as line:
        line.writer.write(b"POST /v1/check HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n" + b"10000\r\n" + b" " * 0x10000)
        assert (await line.answer()).status == 413
    assert (await ask(service, READY)).status == 200


QUESTIONS: dict[bytes, int] = {
    b"": 400,
    b"{": 400,
    b"\xff\xfe": 400,
    b'{"client": "a", "client": "b", "rule": "all"}': 400,
    b'{"client": "a", "rule": "all", "cost": NaN}': 400,
    b'{"client": "a", "rule": "all", "cost": Infinity}': 400,
    b"[" * 60_000: 400,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000: 400,
    b"[]": 422,
    b"null": 422,
    b'"text"': 422,
    b"{}": 422,
    b'{"client": "a"}': 422,
    b'{"rule": "all"}': 422,
    b'{"client": "", "rule": "all"}': 422,
    b'{"client": 5, "rule": "all"}': 422,
    b'{"client": "a", "rule": ["all"]}': 422,
    b'{"client": "\\ud800", "rule": "all"}': 422,
    b'{"client": "a", "rule": "all", "cost": -1}': 422,
    b'{"client": "a", "rule": "all", "cost": 1.5}': 422,
    b'{"client": "a", "rule": "all", "cost": 1e999}': 422,
    b'{"client": "a", "rule": "all", "cost": "1"}': 422,
    b'{"client": "a", "rule": "all", "cost": true}': 422,
    b'{"client": "a", "rule": "all", "cost": 99999999999999999999}': 422,
    b'{"client": "a", "rule": "all", "costs": 1}': 422,
    b'{"client": "a", "rule": "nothing"}': 404,
    b'{"client": "a", "rule": "../all"}': 404,
    b'{"client": "a\\u0000\\r\\n{}", "rule": "all"}': 200,
    b'{"client": "somebody new", "rule": "all", "cost": 0}': 200,
    b'{"client": "a", "rule": "all", "cost": 1000000000}': 200,
    b'{"client": "a", "rule": "none"}': 200,
    b'{"path": "/none", "client": "a"}': 200,
}


async def test_S40_questions_that_are_none_get_a_problem_and_cost_nothing(service: int) -> None:
    found = {question: await ask(service, post("/v1/check", question)) for question in QUESTIONS}
    assert {question: answer.status for question, answer in found.items()} == QUESTIONS
    for answer in found.values():
        kind = "application/json" if answer.status == 200 else "application/problem+json"
        assert f"content-type: {kind}\r\n" in answer.head
    for question in (b'{"client": "a", "rule": "none"}', b'{"path": "/none", "client": "a"}'):
        decision = found[question].json
        assert (decision["allowed"], decision["retry_after_ms"], decision["limit"]) == (False, None, 0)
    never = found[b'{"client": "a", "rule": "all", "cost": 1000000000}'].json
    assert (never["allowed"], never["reason"], never["retry_after_ms"]) == (False, "exceeds_capacity", None)
    state = await ask(service, b"GET /v1/state?client=a&rule=all HTTP/1.1\r\nHost: a\r\n\r\n")
    assert state.json["remaining"] == 10_000


async def test_the_service_answers_odd_methods_paths_and_heads(service: int) -> None:
    assert (await ask(service, b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")).status == 404
    assert (await ask(service, b"GET /v1/check HTTP/1.1\r\nHost: a\r\n\r\n")).status == 405
    assert (await ask(service, b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n")).status == 200
    assert (await ask(service, b"GET /healthz/../metrics HTTP/1.1\r\nHost: a\r\n\r\n")).status == 404
    assert (await ask(service, b"GET /v1/state?client=a&client=b&rule=all HTTP/1.1\r\nHost: a\r\n\r\n")).status == 422
    for name, request in REFUSED.items():
        async with await connect(service) as line:
            line.writer.write(request + READY)
            assert (name, await line.all_statuses()) == (name, [400])
    assert (await ask(service, READY)).status == 200


async def test_F31_a_poisonous_rule_is_refused_by_the_admin_api(service: int) -> None:
    poison: dict[bytes, int] = {
        b"": 400,
        b"null": 422,
        b"{}": 422,
        b'{"limit": NaN}': 400,
        b'{"limit": "-1/minute"}': 422,
        b'{"capacity": 1e999, "refill_per_sec": 1}': 400,
        b'{"capacity": 5, "refill_per_sec": 0}': 422,
        b'{"limit": "1/minute", "limit": "2/minute"}': 400,
        b'{"limit": "1/minute", "match": {"path": "' + b"/**" * 5000 + b'"}}': 422,
        b'{"limit": "1/minute", "cost": 5}': 422,
        b'{"a":' * 5000 + b"1" + b"}" * 5000: 400,
        b'{"limit": "' + b"1" * 2_000_000 + b'"}': 413,
    }
    found = {body: (await ask(service, post("/admin/rules/bad", body, method="PUT"))).status for body in poison}
    assert found == poison
    listed = (await ask(service, b"GET /admin/rules HTTP/1.1\r\nHost: localhost\r\n\r\n")).json
    assert [rule["id"] for rule in listed["rules"]] == ["all", "none"]
