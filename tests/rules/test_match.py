"""Which requests a rule applies to, and which matches are refused because no request could ever hold them."""

from __future__ import annotations

from typing import Any

import pytest

from limen.errors import UsageError
from limen.rules.match import match_from_mapping, path_pattern
from limen.rules.path import segments_of
from limen.rules.request import Request


def holds(document: dict[str, Any], request: Request) -> bool:
    return match_from_mapping(document).holds(request)


def test_nothing_given_matches_all() -> None:
    assert holds({}, Request())
    assert match_from_mapping({}).path is None


def test_everything_given_must_hold() -> None:
    both = {"methods": "GET", "plan": ["free", "trial"]}
    assert holds(both, Request(method="GET", plan="trial"))
    assert not holds(both, Request(method="POST", plan="trial"))
    assert not holds(both, Request(method="GET", plan="paid"))
    assert not holds(both, Request(method="GET"))


@pytest.mark.parametrize(
    ("methods", "method", "expected"),
    [
        (["GET"], "GET", True),
        (["GET"], "HEAD", True),
        (["GET"], "get", True),
        (["get"], "GET", True),
        ("GET", "head", True),
        (["GET"], "POST", False),
        (["GET"], "BREW", False),
        (["HEAD"], "GET", False),
        (["POST", "PUT"], "PUT", True),
        (["M-SEARCH"], "M-SEARCH", True),
        (["PROPFIND"], "PROPFIND", True),
    ],
)
def test_methods(methods: object, method: str, expected: bool) -> None:
    assert holds({"methods": methods}, Request(method=method)) is expected


@pytest.mark.parametrize(
    ("host", "sent", "expected"),
    [
        ("api.example.com", "api.example.com", True),
        ("api.example.com", "API.Example.com", True),
        ("api.example.com", "api.example.com:8443", True),
        ("api.example.com", "api.example.com.", True),
        ("api.example.com", "api.example.com.:80", True),
        ("API.example.com.", "api.example.com", True),
        ("api.example.com", "example.com", False),
        ("api.example.com", "evil-api.example.com", False),
        ("api.example.com", "", False),
        ("*.example.com", "api.example.com:80", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "badexample.com", False),
        (["a.test", "*.b.test"], "x.b.test", True),
        ("[2001:db8::1]", "[2001:DB8::1]:443", True),
        ("192.0.2.1", "192.0.2.1:80", True),
        ("localhost", "localhost:8080", True),
    ],
)
def test_host(host: object, sent: str, expected: bool) -> None:
    assert holds({"host": host}, Request(host=sent)) is expected


@pytest.mark.parametrize(
    ("cidr", "ip", "expected"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "10.1.2.3:4711", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", None, False),
        ("10.0.0.0/8", "garbage", False),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        (["192.0.2.1", "2001:db8::/32"], "2001:db8::9", True),
        (["192.0.2.1", "2001:db8::/32"], "192.0.2.1", True),
        (["192.0.2.1", "2001:db8::/32"], "192.0.2.2", False),
    ],
)
def test_ip(cidr: object, ip: str | None, expected: bool) -> None:
    assert holds({"ip": cidr}, Request(ip=ip)) is expected


def test_client_and_plan_are_compared_to_the_letter() -> None:
    assert holds({"client": "acme"}, Request(client="acme"))
    assert not holds({"client": "acme"}, Request(client="Acme"))
    assert not holds({"client": "acme"}, Request())
    assert holds({"plan": ["free"]}, Request(plan="free"))


def test_header_names_have_no_case_and_values_do() -> None:
    document = {"header": {"X-Tier": ["gold", "silver"], "x-beta": "1"}}
    assert holds(document, Request(headers={"x-tier": "gold", "x-beta": "1"}))
    assert not holds(document, Request(headers={"x-tier": "Gold", "x-beta": "1"}))
    assert not holds(document, Request(headers={"x-tier": "gold"}))


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("/", ["/"], ["/a"]),
        ("/**", ["/", "/a", "/a/b"], []),
        ("/v1", ["/v1"], ["/", "/v1/a", "/v2"]),
        ("/v1/", ["/v1"], ["/v1/a"]),
        ("/v1/*", ["/v1/a"], ["/v1", "/v1/a/b"]),
        ("/v1/**", ["/v1", "/v1/a", "/v1/a/b"], ["/v2", "/"]),
        ("/v1/*/x", ["/v1/a/x"], ["/v1/x", "/v1/a/y"]),
        ("/v1/{id}/x", ["/v1/a/x"], ["/v1/x"]),
        ("/*/**", ["/a", "/a/b"], ["/"]),
        ("/café", ["/café"], ["/cafe"]),
    ],
)
def test_path_pattern(pattern: str, fitting: list[str], other: list[str]) -> None:
    compiled = path_pattern(pattern)
    assert [path for path in fitting + other if compiled.matches(segments_of(path))] == fitting


def test_a_capture_says_which_segment_it_is() -> None:
    assert path_pattern("/v1/{org}/items/{item}/**").captures == {"org": 1, "item": 3}


@pytest.mark.parametrize(
    ("document", "advice"),
    [
        ([], "match must be a mapping such as {path: /v1/**}"),
        ("/v1", "match must be a mapping"),
        ({"paths": "/v1"}, "match has no field 'paths'; it knows client, header, host, ip, methods, path, plan"),
        ({"when": "x > 1"}, "match has no field 'when' (expressions are not supported)"),
        ({"path": "v1"}, "a path starts with '/', such as '/v1/**', not 'v1'"),
        ({"path": None}, "a path starts with '/'"),
        ({"path": "/v1?x=1"}, "a path has no query; rules ignore it"),
        ({"path": "/v1#f"}, "a path has no query"),
        ({"path": "/v1/a*"}, "'a*' must be a whole segment: '*', '{name}', or '**' at the end"),
        ({"path": "/v1/**/x"}, "'**' must be a whole segment"),
        ({"path": "/v1/{a-b}"}, "'{a-b}' must be a whole segment"),
        ({"path": "/v1/{id"}, "'{id' must be a whole segment"),
        ({"path": "/{id}/{id}"}, "'{id}' is there twice; give each segment its own name"),
        ({"path": "/a/../b"}, "no request is seen with '/..' in its path; write '/'"),
        ({"path": "/caf%C3%A9"}, "no request is seen with '/caf%C3%A9' in its path; write '/café'"),
        ({"path": "/login;v=1"}, "write '/login'"),
        ({"path": "/a%2Fb"}, "write '/a/b'"),
        ({"path": "/100%"}, "write '/100%25'"),
        ({"methods": []}, "match.methods is an empty list and matches nothing; leave it out to match all"),
        ({"methods": [False]}, "match.methods must be text or a list of texts, not False; put it in quotes"),
        ({"methods": {"GET": 1}}, "match.methods must be text"),
        ({"methods": ["G T"]}, "'G T' is not an HTTP method"),
        ({"host": "example.com:8080"}, "write 'example.com' or '*.example.com', without a port"),
        ({"host": "*"}, "match.host: '*' is not a host"),
        ({"host": "api.*.com"}, "is not a host"),
        ({"host": "https://example.com"}, "is not a host"),
        ({"host": "bücher.example"}, "is not a host"),
        ({"plan": 1e3}, "match.plan must be text or a list of texts, not 1000.0; put it in quotes"),
        ({"client": 630}, "match.client must be text"),
        ({"client": ""}, "match.client must be text"),
        ({"ip": "10.0.0"}, "'10.0.0' is not a network"),
        ({"ip": ["10.0.0.0/40"]}, "'10.0.0.0/40' is not a network"),
        ({"header": "x-tier"}, "match.header must be a mapping such as {x-tier: gold}"),
        ({"header": {}}, "match.header must be a mapping"),
        ({"header": {"x": 1}}, "match.header.x must be text"),
    ],
)
def test_a_bad_match_is_told_what_to_write_instead(document: object, advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        match_from_mapping(document)
    assert advice in str(caught.value)
