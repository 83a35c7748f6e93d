"""Logs of every format are read without being told which, and what cannot be read harms nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.errors import UsageError
from limen.rules.request import Request
from limen.sim.formats import FORMATS, find_format, log_format
from limen.sim.record import Wanted

AT_US = 1_431_857_103_000_000
TIME = "17/May/2015:10:05:03 +0000"
COMMON = f'192.0.2.7 - - [{TIME}] "GET /v1/items?x=1 HTTP/1.1" 200 512'
COMBINED = f'192.0.2.7 - acme [{TIME}] "GET /v1/items HTTP/1.1" 200 512 "https://example.com/" "curl/8"'
ALB = (
    "https 2015-05-17T10:05:03.000000Z app/web/50dc6c495c0c9188 192.0.2.7:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 "
    '0 57 "GET https://api.example.com:443/v1/items?x=1 HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 '
    'arn:aws:elasticloadbalancing:us-east-2:1:targetgroup/t/7 "Root=1-58337281" "api.example.com" "arn:aws:acm:1" 1 '
    '2015-05-17T10:05:02.910000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-"'
)
NGINX = json.dumps(
    {"time_iso8601": "2015-05-17T10:05:03+00:00", "remote_addr": "192.0.2.7", "remote_user": "acme", "status": "200",
     "request_method": "GET", "request_uri": "/v1/items?x=1", "host": "api.example.com", "http_x_tier": "gold"}
)  # fmt: skip
ENVOY = json.dumps(
    {"start_time": "2015-05-17T10:05:03.000Z", "method": "GET", "path": "/v1/items?x=1", "response_code": 200,
     "authority": "api.example.com", "downstream_remote_address": "192.0.2.7:50000", "response_flags": "-",
     "user_agent": "curl/8"}
)  # fmt: skip
LINES = json.dumps(
    {"time": 1431857103, "method": "GET", "path": "/v1/items?x=1", "client": "acme", "plan": "free",
     "ip": "192.0.2.7", "host": "api.example.com", "headers": {"X-Tier": "gold"}}
)  # fmt: skip

EXAMPLES: list[tuple[str, str, dict[str, Any]]] = [
    ("combined", COMMON, {"path": "/v1/items?x=1", "ip": "192.0.2.7"}),
    ("combined", COMBINED, {"client": "acme", "user": "acme", "path": "/v1/items", "ip": "192.0.2.7"}),
    ("alb", ALB, {"host": "api.example.com", "path": "/v1/items?x=1", "ip": "192.0.2.7"}),
    ("nginx-json", NGINX, {"client": "acme", "user": "acme", "host": "api.example.com", "ip": "192.0.2.7"}),
    ("envoy-json", ENVOY, {"host": "api.example.com", "ip": "192.0.2.7:50000"}),
    ("jsonl", LINES, {"client": "acme", "plan": "free", "host": "api.example.com", "ip": "192.0.2.7"}),
]


@pytest.mark.parametrize(("name", "line", "fields"), EXAMPLES)
def test_a_format_is_found_out_and_read(name: str, line: str, fields: dict[str, Any]) -> None:
    found = find_format(line, Wanted(), "access.log")
    assert found.name == name
    ((at_us, request),) = found.parse(line).records
    assert at_us == AT_US
    assert request == Request(**{"method": "GET", "path": "/v1/items?x=1", **fields, "headers": request.headers})


@pytest.mark.parametrize(("name", "line", "fields"), EXAMPLES)
def test_by_address_nobody_has_a_name(name: str, line: str, fields: dict[str, Any]) -> None:
    ((_, request),) = log_format(name, Wanted("ip")).parse(line).records
    assert (request.client, request.user) == (None, None)


@pytest.mark.parametrize(
    ("line", "header", "value"),
    [
        (COMBINED, "user-agent", "curl/8"), (COMBINED, "referer", "https://example.com/"),
        (ALB, "user-agent", "curl/7.46.0"),
        (NGINX, "x-tier", "gold"), (ENVOY, "user-agent", "curl/8"), (LINES, "x-tier", "gold"),
    ],
)  # fmt: skip
def test_headers_that_rules_look_at(line: str, header: str, value: str) -> None:
    wanted = Wanted(headers=[header])
    ((_, request),) = find_format(line, wanted, "access.log").parse(line).records
    assert request.headers.get(header) == value


@pytest.mark.parametrize(
    ("target", "host", "path"),
    [
        ("/a b/c", "", "/a b/c"), ("*", "", "/"), ("example.com:443", "", "/"), (r"/say\"hi\"", "", '/say"hi"'),
        ("http://api.example.com:8080/x?y", "api.example.com:8080", "/x?y"),
        ("https://api.example.com:443", "api.example.com", "/"),
    ],
)  # fmt: skip
def test_targets_of_every_form(target: str, host: str, path: str) -> None:
    line = f'192.0.2.7 - - [{TIME}] "GET {target} HTTP/1.1" 200 512 "-" "-"'
    ((_, request),) = log_format("combined", Wanted()).parse(line).records
    assert (request.host, request.path) == (host, path)


def test_an_ipv6_address_and_a_user_with_a_blank() -> None:
    line = f'2001:db8::7 - jo doe [{TIME}] "GET / HTTP/2.0" 200 1'
    ((_, request),) = log_format("common", Wanted()).parse(line).records
    assert (request.ip, request.client) == ("2001:db8::7", "jo doe")


BAD = [
    "", "   ", "garbage", "{", "[]", '{"time": "never", "method": "GET", "path": "/"}', "\x16\x03\x01",
    '"GET / HTTP/1.1"', f'192.0.2.7 - - [{TIME}] "-" 408 -', f'192.0.2.7 - - [{TIME}] "\\x16\\x03\\x01" 400 150',
    '192.0.2.7 - - [no time] "GET / HTTP/1.1" 200 1', "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("bad", BAD)
def test_a_line_that_cannot_be_read_is_counted_and_those_beside_it_are_read(name: str, bad: str) -> None:
    good = next(line for each, line, _ in EXAMPLES if each == {"common": "combined"}.get(name, name))
    found = log_format(name, Wanted()).parse("\n".join([good, bad, good]))
    assert len(found.records) == 2
    assert len(found.unreadable) == (1 if bad.strip() else 0)


@given(
    st.lists(st.text(st.characters(exclude_characters="\n"), max_size=80), max_size=8), st.sampled_from(list(FORMATS))
)
def test_no_text_is_too_odd(lines: list[str], name: str) -> None:
    found = log_format(name, Wanted(headers=["x-tier", "referer"])).parse("\n".join(lines))
    assert len(found.records) + len(found.unreadable) == sum(1 for line in lines if line.strip())


def test_hostile_lines_take_no_longer_than_others() -> None:
    for line in ('a - - [x] "GET ' + "\\" * 200_001, "a " * 200_000, '"' * 400_001, "a - - [" + "[" * 400_000):
        for name in FORMATS:
            assert len(log_format(name, Wanted(headers=["referer"])).parse(line).unreadable) == 1


def test_a_log_of_no_known_format_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"access\.log: no line .* 'what is this'; name one with --format combined"):
        find_format("what is this\nno idea", Wanted(), "access.log")


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match="no log format 'iis'; there are combined"):
        log_format("iis", Wanted())
