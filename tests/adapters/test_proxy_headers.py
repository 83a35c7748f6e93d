"""Fields and paths that go through the proxy, and those that do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.adapters.proxy_headers import forwarded_path, request_headers, response_headers
from limen.rules.path import canonical_path

SENT = [
    (b"host", b"api.example"),
    (b"connection", b"keep-alive, X-Hop"),
    (b"x-hop", b"1"),
    (b"te", b"trailers"),
    (b"transfer-encoding", b"chunked"),
    (b"expect", b"100-continue"),
    (b"accept", b"*/*"),
    (b"accept", b"text/html"),
    (b"x-forwarded-for", b"203.0.113.66"),
    (b"x-forwarded-for", b"198.51.100.7"),
    (b"x-forwarded-proto", b"https"),
    (b"x-forwarded-host", b"evil.example"),
    (b"forwarded", b"for=127.0.0.1"),
]


def test_hop_by_hop_fields_stay_and_the_peer_is_appended() -> None:
    assert request_headers(SENT, "192.0.2.5", "http", False) == [
        ("accept", "*/*"),
        ("accept", "text/html"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "api.example"),
        ("x-forwarded-for", "203.0.113.66, 198.51.100.7, 192.0.2.5"),
    ]


def test_a_proxy_of_ours_is_believed() -> None:
    found = request_headers(SENT, "10.0.0.1", "http", True)
    assert ("x-forwarded-proto", "https") in found
    assert ("x-forwarded-host", "evil.example") in found
    assert ("forwarded", "for=127.0.0.1") in found
    assert [name for name, _ in found].count("x-forwarded-proto") == 1


def test_without_a_peer_nothing_is_appended() -> None:
    assert request_headers([(b"host", b"a")], None, "https", False) == [
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "a"),
    ]


def test_a_value_that_cannot_be_passed_on_as_it_is_is_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        request_headers([(b"x-name", b"\xe9")], None, "http", False)
    assert request_headers([(b"x-name", "é".encode())], None, "http", False)[0] == ("x-name", "é")


def test_responses_keep_order_and_doubles() -> None:
    headers = [
        (b"Set-Cookie", b"a"),
        (b"X-A", b"1"),
        (b"Connection", b"x-hop"),
        (b"X-Hop", b"1"),
        (b"Set-Cookie", b"b"),
    ]
    assert response_headers(headers) == [(b"set-cookie", b"a"), (b"x-a", b"1"), (b"set-cookie", b"b")]


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("//a", "/a"),
        ("/a//b/", "/a/b/"),
        ("/./a", "/a"),
        ("/x/../a", "/a"),
        ("/../../a", "/a"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/a/.", "/a/"),
        ("/a/..;v=1/b", "/b"),
        ("/;x/a", "/a"),
        ("/a;v=1/b%20c", "/a;v=1/b%20c"),
        ("/.well-known/x", "/.well-known/x"),
        ("//evil.example/x", "/evil.example/x"),
    ],
)
def test_paths_are_resolved_but_not_rewritten(raw: str, sent: str) -> None:
    assert forwarded_path(raw) == sent


@given(st.lists(st.sampled_from(["a", "b;v=1", "", ".", "..", "..;x", ";y", "c%20d", ".h"]), max_size=8))
def test_the_upstream_gets_a_path_that_rules_know_under_the_same_name(segments: list[str]) -> None:
    raw = "/" + "/".join(segments)
    sent = forwarded_path(raw)
    assert canonical_path(sent) == canonical_path(raw)
    assert forwarded_path(sent) == sent
    assert "//" not in sent
    assert not any(segment.partition(";")[0] in (".", "..") for segment in sent.split("/"))
