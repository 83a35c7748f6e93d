"""What one match says of another is true of every request."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from limen.rules.match import match_from_mapping
from limen.rules.path import segments_of
from limen.rules.request import Request
from limen.rules.scope import scope_of

ONE_OR_SOME = {"min_size": 1, "max_size": 2, "unique": True}
HOSTS = ["example.com", "a.example.com", "b.a.example.com"]
PATHS = ["/", "/a", "/a/b", "/a/b/a", "/b", "/b/a"]


def matches() -> st.SearchStrategy[dict[str, Any]]:
    """Matches over few values, so that they often cover each other."""

    def some(*values: str) -> st.SearchStrategy[Any]:
        return st.sampled_from(values) | st.lists(st.sampled_from(values), **ONE_OR_SOME)  # type: ignore[arg-type]

    path = st.lists(st.sampled_from(["a", "b", "*", "{x}"]), max_size=2).filter(lambda found: found.count("{x}") < 2)
    whole = st.tuples(path, st.sampled_from(["", "/**"])).map(lambda pair: "/" + "/".join(pair[0]) + pair[1])
    fields = {
        "methods": some("GET", "HEAD", "post"),
        "host": some(*HOSTS, "*.example.com", "*.a.example.com", "A.Example.com."),
        "path": whole.map(lambda text: text.replace("//", "/")),
        "plan": some("free", "gold"),
        "client": some("acme", "zoo"),
        "ip": some("192.0.2.0/24", "192.0.2.7", "2001:db8::/32", "0.0.0.0/0", "::ffff:192.0.2.0/120"),
        "header": st.dictionaries(st.sampled_from(["x-a", "X-B"]), some("1", "2"), min_size=1),
    }
    return st.fixed_dictionaries({}, optional=fields)


def requests() -> st.SearchStrategy[Request]:
    return st.builds(
        Request,
        method=st.sampled_from(["GET", "HEAD", "POST"]),
        path=st.sampled_from(PATHS),
        host=st.sampled_from(HOSTS),
        client=st.sampled_from([None, "acme", "zoo"]),
        plan=st.sampled_from([None, "free", "gold"]),
        ip=st.sampled_from([None, "192.0.2.7", "192.0.2.8", "198.51.100.1", "2001:db8::1"]),
        headers=st.dictionaries(st.sampled_from(["x-a", "x-b"]), st.sampled_from(["1", "2"])),
    )


def holds(raw: dict[str, Any], request: Request) -> bool:
    match = match_from_mapping(raw)
    fits = match.path is None or match.path.matches(segments_of(request.path))
    return fits and match.holds(request)


@settings(max_examples=2000 if os.environ.get("LIMEN_LONG") else 150)
@example({"path": "/a/**"}, {"path": "/a"}, Request(path="/a"))
@example({"path": "/a/*"}, {"path": "/a/**"}, Request(path="/a/b/a"))
@example({"host": "*.example.com"}, {"host": "a.example.com"}, Request(host="a.example.com"))
@example({"ip": "0.0.0.0/0"}, {"ip": "2001:db8::/32"}, Request(ip="2001:db8::1"))
@given(matches(), matches(), requests())
def test_what_is_said_of_two_matches_is_true_of_every_request(
    one: dict[str, Any], other: dict[str, Any], request: Request
) -> None:
    mine, theirs = scope_of(match_from_mapping(one)), scope_of(match_from_mapping(other))
    if mine.covers(theirs) and holds(other, request):
        assert holds(one, request)
    if holds(one, request) and holds(other, request):
        assert mine.meets(theirs)
        assert theirs.meets(mine)


@example({"plan": ["free", "gold"]}, {"plan": "gold"})
@example({"header": {"x-tier": ["a", "b"]}}, {"header": {"x-tier": "b"}})
@given(matches(), matches())
def test_whatever_covers_another_is_found_by_its_marks(one: dict[str, Any], other: dict[str, Any]) -> None:
    wide, narrow = scope_of(match_from_mapping(one)), scope_of(match_from_mapping(other))
    marks = wide.marks()
    if wide.covers(narrow) and marks is not None:
        assert len(set(marks) & set(narrow.places())) == 1, "once, so no pair is looked at twice"


@given(matches())
def test_every_match_covers_itself_and_everything_covers_it(raw: dict[str, Any]) -> None:
    scope, everything = scope_of(match_from_mapping(raw)), scope_of(match_from_mapping({}))
    assert scope.covers(scope)
    assert everything.covers(scope)
    assert everything.meets(scope)
