"""What is sampled comes back as it was, but for who it was."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.engine.sampler import Heard
from limen.errors import UsageError
from limen.rules.request import NO_HEADERS, Request
from limen.sim.chunk import PATH, decode, encode
from limen.sim.preview import Traced
from limen.sim.pseudonyms import Pseudonyms

AT_US = 1_750_000_000_000_000
CANARY = "canary-7f3a"
names = Pseudonyms(b"a secret of sixteen or more")

requests = st.builds(
    Request,
    method=st.sampled_from(["GET", "POST"]),
    path=st.sampled_from(["/", "/v1/items", "/v1/items/7"]),
    host=st.sampled_from(["", "api.example.com"]),
    client=st.sampled_from([None, "acme", "other"]),
    plan=st.sampled_from([None, "free"]),
    user=st.none(),
    ip=st.sampled_from([None, "192.0.2.7", "2001:db8::7"]),
    headers=st.just({}),
)
by_request = st.builds(
    Heard, st.integers(0, 10**8), requests, st.none(), st.none(), st.sampled_from([1.0, 100.0, 200.0])
)
by_name = st.builds(
    Heard, st.integers(0, 10**8), st.just(Request(client="acme")), st.just("search"), st.integers(0, 9), st.just(1.0)
)


@given(st.lists(st.one_of(by_request, by_name), max_size=40))
def test_everything_that_rules_look_at_comes_back(heard: list[Heard]) -> None:
    chunk, rows = encode([each._replace(at_us=AT_US + each.at_us) for each in heard], names, {})
    found = list(decode(chunk, names))
    assert len(found) == rows
    assert [each.at_us for each in found] == sorted(each.at_us for each in found)
    counted = Counter[Any]()
    for each in found:
        counted[each._replace(times=1, request=_hashable(each.request))] += each.times
    assert counted == Counter(_expected(each) for each in heard)


def _expected(heard: Heard) -> Any:
    client, ip = heard.request.client, heard.request.ip
    blind = heard.request._replace(client=client and names.name(client), ip=ip and names.address(ip))
    at_us = (AT_US + heard.at_us) // 10_000 * 10_000
    return Traced(at_us, _hashable(blind), heard.rule, heard.cost, heard.weight)


def _hashable(request: Request) -> Any:
    return request._replace(headers=tuple(sorted(request.headers.items())))  # type: ignore[arg-type]


def test_a_flood_is_a_number() -> None:
    flood = [Heard(AT_US + number * 200, Request(client="acme"), None, None, 1.0) for number in range(50_000)]
    chunk, rows = encode(flood, names, {})
    assert rows == 1000
    assert len(chunk) < 5000
    assert sum(each.times for each in decode(chunk, names)) == 50_000


def test_nobody_is_in_it_by_name() -> None:
    request = Request(
        method="GET",
        path=f"/v1/{CANARY}@example.com/reset/eyJhbGciOiJIUzI1NiJ9{CANARY}?key={CANARY}#{CANARY}",
        client=f"client {CANARY}",
        user=f"user {CANARY}",
        ip="192.0.2.77",
        headers={"x-tier": f"gold {CANARY}", "x-known": "a literal"},
    )
    chunk, _ = encode([Heard(AT_US, request, None, None, 1.0)], names, {"x-known": ["a literal"]})
    text = zlib.decompress(chunk).decode()
    assert CANARY not in text
    assert "192.0.2.77" not in text or names.address("192.0.2.77") == "192.0.2.77"
    (found,) = decode(chunk, names)
    assert found.request.headers == {"x-known": "a literal", "x-tier": names.value(f"gold {CANARY}")}
    assert found.request.path.startswith("/v1/~")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/search/deep",
        "/presentations/logstash-monitorama-2013/images",
        "/a/1234567",
        "/how-to-limit-rates-of-2-clients",
    ],
)
def test_a_path_that_holds_no_secret_stays_readable(path: str) -> None:
    chunk, _ = encode([Heard(AT_US, Request(path=path), None, None, 1.0)], names, {})
    (found,) = decode(chunk, names)
    assert found.request == Request(path=path, headers=NO_HEADERS)


@pytest.mark.parametrize(
    "secret",
    ["jo@example.com", "0b8f3a52-7a5e-4c11-9d0e-6f1f2b3c4d5e", "sk_live_51H8xYz2eZvKYlo2C", "A1" * 10, "x" * 101,
     "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"],
)  # fmt: skip
def test_a_secret_in_a_path_is_replaced_unless_a_rule_names_it(secret: str) -> None:
    heard = [Heard(AT_US, Request(path=f"/reset/{secret}/now"), None, None, 1.0)]
    (found,) = decode(encode(heard, names, {})[0], names)
    assert found.request.path == f"/reset/{names.value(secret)}/now"
    (found,) = decode(encode(heard, names, {PATH: [secret]})[0], names)
    assert found.request.path == f"/reset/{secret}/now"


@pytest.mark.parametrize(
    "chunk",
    [
        b"", b"not zlib", zlib.compress(b"not json"), zlib.compress(b"[]"), zlib.compress(b'{"v": 1}'),
        zlib.compress(json.dumps({"v": 9}).encode()), zlib.compress(b"0" * (40 << 20)),
    ],
)  # fmt: skip
def test_what_is_no_chunk_is_refused(chunk: bytes) -> None:
    with pytest.raises(UsageError, match="a chunk of the sample"):
        list(decode(chunk, names))


def test_names_of_another_secret_are_not_taken_for_those_of_this_one() -> None:
    chunk, _ = encode([Heard(AT_US, Request(client="acme"), None, None, 1.0)], names, {})
    assert list(decode(chunk, Pseudonyms(b"another secret of sixteen"))) == []
