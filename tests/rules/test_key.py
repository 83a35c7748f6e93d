"""Identities: whoever differs in what a rule counts by has a bucket of his own, and nobody else has."""

from __future__ import annotations

from itertools import combinations
from unicodedata import normalize

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limen.errors import UsageError
from limen.rules.key import identity_of_client, key_function
from limen.rules.match import path_pattern
from limen.rules.request import Request

HOSTILE = [
    "x}{y", "{", "}", "{}", "a\nb", "a\0b", "a", " a", "a ", "", "ключ", normalize("NFC", "é"), normalize("NFD", "é"),
    b"\xff\xfe".decode("latin-1"), b"\xff".decode(errors="surrogateescape"), "a:b", "b:c", "a|b", "a=b", "ip=192.0.2.1",
    "client=a", "1:a;user=1:b", "+", "*", ";", "a;user=1:b", "192.0.2.1", "unknown",
]  # fmt: skip
values = st.sampled_from(HOSTILE) | st.text(max_size=6)
PATTERN = path_pattern("/{one}/{two}/**")


def test_every_hostile_name_has_an_identity_of_its_own() -> None:
    key = key_function(["client"], None)
    names = [name for name in HOSTILE if name]
    assert len({key(Request(client=name, ip="192.0.2.1"), []) for name in names}) == len(names)
    assert len({identity_of_client(name, ["client"]) for name in HOSTILE}) == len(HOSTILE)


@given(st.tuples(values, values), st.tuples(values, values))
def test_pairs_collide_only_when_both_parts_are_equal(one: tuple[str, str], other: tuple[str, str]) -> None:
    key = key_function(["client", "user"], None)

    def identity(pair: tuple[str, str]) -> str:
        return key(Request(client=pair[0], user=pair[1], ip="198.51.100.1"), [])

    def shown(pair: tuple[str, str]) -> tuple[str | None, str | None]:
        return pair[0] or None, pair[1] or None

    assert (identity(one) == identity(other)) == (shown(one) == shown(other))


@given(st.tuples(values, values), st.tuples(values, values))
def test_path_segments_never_run_together(one: tuple[str, str], other: tuple[str, str]) -> None:
    key = key_function(["path.one", "path.two"], PATTERN)
    assert (key(Request(), one) == key(Request(), other)) == (one == other)


PARTS = ["client", "user", "plan", "host", "ip", "ip/48", "header.x-tenant", "header.x-user", "path.one", "path.two"]


shapes = st.lists(st.sampled_from(PARTS), max_size=3, unique=True)


@given(shapes, shapes, values, values)
def test_keys_of_different_shape_never_collide(one: list[str], other: list[str], value: str, elsewhere: str) -> None:
    """No value, however it is spelled, passes for a key of more, fewer or other parts."""
    assume(one != other)
    mine = key_function(one, PATTERN)(filled(value), [value, value])
    theirs = key_function(other, PATTERN)(filled(elsewhere), [elsewhere, elsewhere])
    assert mine != theirs


def filled(value: str) -> Request:
    """A request that lacks nothing and has `value` everywhere it can."""
    text = value or "x"
    headers = {"x-tenant": text, "x-user": text}
    return Request("GET", "/", "a.test", client=text, plan=text, user=text, ip="192.0.2.1", headers=headers)


def test_what_a_request_lacks_is_made_up_by_its_address() -> None:
    for part in ("client", "user", "plan", "host", "header.x-api-key"):
        key = key_function([part], None)
        assert key(Request(ip="192.0.2.1"), []) == "ip=192.0.2.1"
        assert key(Request(ip="2001:db8::1"), []) == "ip=2001:db8::/64"
        assert key(Request(), []) == "ip=unknown"
    assert key_function(["header.X-Key"], None)(Request(headers={"x-key": ""}, ip="192.0.2.1"), []) == "ip=192.0.2.1"


def test_a_client_that_calls_itself_an_address_is_not_that_address() -> None:
    key = key_function(["client"], None)
    assert key(Request(client="192.0.2.1"), []) != key(Request(ip="192.0.2.1"), [])
    assert key(Request(client="ip=192.0.2.1"), []) != key(Request(ip="192.0.2.1"), [])


def test_no_part_is_one_bucket_for_all() -> None:
    key = key_function([], None)
    assert {key(Request(client=name, ip=ip), []) for name, ip in combinations(["a", "b", None], 2)} == {"*"}
    assert identity_of_client("anybody", []) == "*"


@pytest.mark.parametrize("host", ["api.test", "API.test", "api.test:443", "api.test.", "Api.Test.:8080"])
def test_spellings_of_a_host_are_one_bucket(host: str) -> None:
    assert key_function(["host"], None)(Request(host=host), []) == "host=api.test"
    assert identity_of_client(host, ["host"]) == "host=api.test"


def test_ipv6_clients_are_counted_by_the_prefix_that_the_rule_names() -> None:
    one, other = Request(ip="2001:db8:1:2::1"), Request(ip="2001:db8:1:3::1")
    assert key_function(["ip"], None)(one, []) != key_function(["ip"], None)(other, [])
    assert key_function(["ip/48"], None)(one, []) == key_function(["ip/48"], None)(other, []) == "ip/48=2001:db8:1::/48"
    assert key_function(["ip/48"], None)(Request(ip="192.0.2.7"), []) == "ip/48=192.0.2.7"


@pytest.mark.parametrize("part", ["client", "user", "plan", "host", "ip", "ip/48", "header.X-Tenant"])
@pytest.mark.parametrize("name", ["192.0.2.9", "2001:db8::7"])
def test_a_bare_name_finds_the_bucket_that_a_request_is_counted_in(part: str, name: str) -> None:
    sent = Request(client=name, user=name, plan=name, ip=name, headers={"x-tenant": name}, host=name)
    if part == "host" and ":" in name:
        sent = sent._replace(host=f"[{name}]")
        name = sent.host
    assert identity_of_client(name, [part]) == key_function([part], None)(sent, [])


def test_a_bare_name_is_not_enough_for_a_key_of_two_parts() -> None:
    with pytest.raises(UsageError, match="keyed by client, ip needs a whole request; use check_request"):
        identity_of_client("acme", ["client", "ip"])


@pytest.mark.parametrize(
    ("key_by", "advice"),
    [
        (
            ["clients"],
            "key_by has no 'clients'; it knows client, user, ip, plan, host, ip/48",
        ),
        (["country"], "key_by has no 'country'"),
        (["body.email"], "key_by has no 'body.email'"),
        (["header."], "key_by has no 'header.'"),
        (["header.x y"], "key_by has no 'header.x y'"),
        (["ip/0"], "key_by has no 'ip/0'"),
        (["ip/129"], "key_by has no 'ip/129'"),
        (["client", "client"], "key_by has 'client' twice"),
        (["path.id"], "key_by 'path.id' needs match.path with a segment {id}"),
        ([1], "key_by is a list of names such as [client], not 1"),
        ([["client"]], "key_by is a list of names"),
    ],
)
def test_a_bad_key_is_told_what_to_write_instead(key_by: list[str], advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        key_function(key_by, path_pattern("/items/{item}"))
    assert advice in str(caught.value)
