"""One spelling for every path."""

from __future__ import annotations

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.rules.path import canonical_path, is_ambiguous, segments_of

pieces = st.sampled_from(
    [
        "/", "//", ".", "..", "%2e", "%2F", "%252f", "%25", "%", "%3B", ";", ";v=1", "?", "#", "\\", "%5c",
        "a", "login", "é", "%C3%A9", "%ff", "%00", " ", "\n", "*", "{id}", "~", "A",
    ]
)  # fmt: skip
raw_paths = st.lists(pieces, max_size=12).map("".join) | st.text(max_size=20)


@pytest.mark.parametrize(
    "spelling",
    [
        "/login", "/login/", "/login//", "//login", "///login", "/./login", "/login/.", "/x/../login", "/../login",
        "/x/y/../../login", "/login;v=1", "/login;v=1/", "/;x/login", "/x/..;/login", "/%6Cogin", "/%6cogin",
        "/log%69n", "/login?x=1", "/login?x=/../y", "/login/?x=1", "/login#f", "/login?x#f", "\\login", "/%2e/login",
        "/x/%2e%2e/login", "/x/%2E./login", "/%2flogin", "login", "/%5clogin", "/.//login",
    ],
)  # fmt: skip
def test_spellings_that_servers_take_for_one_path_are_one(spelling: str) -> None:
    assert canonical_path(spelling) == "/login"


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("/", "/"),
        ("", "/"),
        ("?x=1", "/"),
        ("/.", "/"),
        ("/..", "/"),
        ("*", "/*"),
        ("/LOGIN", "/LOGIN"),
        ("/caf%C3%A9", "/café"),
        ("/a%20b", "/a b"),
        ("/a+b", "/a+b"),
        ("/.well-known/x", "/.well-known/x"),
        ("/a..b", "/a..b"),
        ("/...", "/..."),
        ("/50%25", "/50%25"),
        ("/%256Cogin", "/%256Cogin"),
        ("/a%3Bb", "/a%3Bb"),
        ("/a%3bb", "/a%3Bb"),
        ("/a%3Fb", "/a%3Fb"),
        ("/a%23b", "/a%23b"),
        ("/100%", "/100%25"),
    ],
)
def test_canonical(raw: str, canonical: str) -> None:
    assert canonical_path(raw) == canonical


@given(raw_paths)
def test_a_canonical_path_is_the_canonical_spelling_of_itself(raw: str) -> None:
    once = canonical_path(raw)
    assert canonical_path(once) == once


@given(raw_paths)
def test_a_canonical_path_has_no_empty_or_dot_segment_and_no_query(raw: str) -> None:
    canonical = canonical_path(raw)
    assert canonical.startswith("/")
    assert not {"", ".", ".."} & set(segments_of(canonical))
    assert not set("?#;\\") & set(canonical)
    assert "/" + "/".join(segments_of(canonical)) == canonical


@given(raw_paths, pieces)
def test_a_query_never_matters(raw: str, query: str) -> None:
    assert canonical_path(raw.partition("?")[0].partition("#")[0]) == canonical_path(f"{raw}?{query}")


@given(st.lists(st.text(min_size=1, max_size=5).filter(lambda text: not {"/", "\\"} & set(text)), max_size=5))
def test_fully_encoded_segments_stay_apart_and_stay_themselves(segments: list[str]) -> None:
    segments = [segment for segment in segments if segment not in (".", "..")]
    raw = "/" + "/".join(quote(segment, safe="") for segment in segments)
    assert [unquote(segment) for segment in segments_of(canonical_path(raw))] == segments


@pytest.mark.parametrize(
    "raw",
    [
        "/a%2fb",
        "/a%2Fb",
        "/a%5cb",
        "/a\\b",
        "/%2e%2e/a",
        "/a%00b",
        "/a%0d%0ab",
        "/a\x00b",
        "/a\tb",
        "/a%252fb",
        "/a%252e",
    ],
)
def test_paths_on_which_servers_disagree_are_ambiguous(raw: str) -> None:
    assert is_ambiguous(raw)


@pytest.mark.parametrize(
    "raw", ["/", "/a/b", "//a", "/./a", "/a/../b", "/caf%C3%A9", "/a%20b", "/50%25", "/a?x=%2f%00\\"]
)
def test_paths_on_which_servers_agree_are_not(raw: str) -> None:
    assert not is_ambiguous(raw)
