"""Public faults in what a client is and what a rule covers, each by its id. Through the whole limiter, in memory."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from unicodedata import normalize

import pytest

from limen import Limiter, Request, Rule, UsageError
from limen.rules.client_ip import client_address, networks
from limen.testing import ManualClock

TRUSTED = networks(["10.0.0.0/8"])


def limiter(**rule: Any) -> Limiter:
    return Limiter("memory://", rules=[Rule("rule", **{"limit": "2/minute", **rule})], clock=ManualClock())


def allowed(limits: Limiter, requests: list[Request]) -> list[bool]:
    return [limits.check_request(request).allowed for request in requests]


def from_addresses(*addresses: str | None) -> list[Request]:
    return [Request(ip=address) for address in addresses]


def test_KY_01_every_address_of_a_64_is_one_client() -> None:
    requests = from_addresses(*(f"2001:db8:1:2::{number:x}" for number in range(1, 21)), "2001:db8:1:3::1")
    with limiter(limit="5/minute", key_by=["ip"]) as limits:
        assert allowed(limits, requests) == [True] * 5 + [False] * 15 + [True]
        assert len(limits.store) == 2
    with limiter(limit="5/minute", key_by=["ip/48"]) as limits:
        assert allowed(limits, requests) == [True] * 5 + [False] * 16


@pytest.mark.parametrize(
    "spellings",
    [
        ["192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:0201"],
        ["2001:db8::1", "2001:DB8:0:0:0:0:0:1", "2001:0db8::0001"],
        ["fe80::1%eth0", "fe80::1%eth1", "fe80::1"],
    ],
)
def test_KY_02_spellings_of_one_address_are_one_client(spellings: list[str]) -> None:
    with limiter(key_by=["ip"]) as limits:
        assert allowed(limits, from_addresses(*spellings)) == [True, True, False]
        assert allowed(limits, from_addresses("::ffff:192.0.2.2")) == [True]


@pytest.mark.parametrize(
    ("peer", "lines", "client"),
    [
        ("10.0.0.1", ["203.0.113.66, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.66", "198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["10.0.0.5"], "10.0.0.5"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["garbage, 10.0.0.2"], "10.0.0.2"),
        ("192.0.2.10", ["203.0.113.66, 198.51.100.7, 10.0.0.2"], "192.0.2.10"),
    ],
    ids="abcdef",
)
def test_KY_04_the_client_in_a_proxy_chain(peer: str, lines: list[str], client: str) -> None:
    assert client_address(peer, lines, TRUSTED) == client


def test_KY_05_a_port_is_no_part_of_the_key() -> None:
    peers = [client_address(f"192.0.2.5:{port}", [], TRUSTED) for port in range(50_001, 50_011)]
    with limiter(key_by=["ip"]) as limits:
        assert allowed(limits, from_addresses(*peers)) == [True] * 2 + [False] * 8
    forwarded = ["192.0.2.5:41234", "[2001:db8::5]:443", "2001:db8::5"]
    found = [client_address("10.0.0.1:80", [entry], TRUSTED) for entry in forwarded]
    assert found == ["192.0.2.5", "2001:db8::5", "2001:db8::5"]


def test_KY_07_a_forged_address_is_no_exemption() -> None:
    everyone_else = {"path": "/**", "ip": ["0.0.0.0/1", "128.0.0.0/1"]}
    forged = client_address("10.0.0.1", ["127.0.0.1, 203.0.113.9"], TRUSTED)
    honest = client_address("10.0.0.1", ["203.0.113.9"], TRUSTED)
    for address in (forged, honest):
        with limiter(key_by=["ip"], match=everyone_else) as limits:
            assert allowed(limits, from_addresses(*[address] * 5)) == [True] * 2 + [False] * 3


@pytest.mark.parametrize("peer", [None, "", "unix:"])
@pytest.mark.parametrize("trust_unix", [False, True])
def test_KY_08_no_peer_address(peer: str | None, trust_unix: bool) -> None:
    alone = client_address(peer, [], TRUSTED, trust_unix)
    behind = client_address(peer, ["198.51.100.7"], TRUSTED, trust_unix)
    assert (behind == "198.51.100.7") is trust_unix
    with limiter(key_by=["ip"]) as limits:
        assert allowed(limits, from_addresses(alone, alone, alone, None)) == [True, True, False, False]
        assert allowed(limits, from_addresses(behind)) == [trust_unix]


GLUED = [
    ("a", "b:c"), ("a:b", "c"), ("a|b", "c"), ("a", "b|c"), ("x}{y", "a"), ("{", "}"), ("}", "{"), ("a\nb", "a"),
    ("a", "\nba"), ("a\0b", "a"), ("a", "\0ba"), (" a", "a"), ("a", " a"), ("a ", "a"), ("a", "a "), ("ключ", "a"),
    (normalize("NFC", "é"), "a"), (normalize("NFD", "é"), "a"), (b"\xff\xfe".decode("latin-1"), "a"), ("a=b", "c"),
    ("a", "b=c"), ("a;user=1:b", "c"), ("a", "b;user=1:c"),
]  # fmt: skip


def test_KY_13_parts_of_a_key_never_run_together() -> None:
    pairs = [Request(client=client, user=user, ip="192.0.2.1") for client, user in GLUED]
    for one, other in combinations(pairs, 2):
        with limiter(limit="1/minute", key_by=["client", "user"]) as limits:
            assert allowed(limits, [one, other, one, other]) == [True, True, False, False]
    names = {name for pair in GLUED for name in pair} | {""}
    with limiter(limit="1/minute") as limits:
        assert all(limits.check(name, "rule").allowed for name in sorted(names))
        assert not any(limits.check(name, "rule").allowed for name in sorted(names))


def test_KY_13_an_empty_name_in_a_request_is_no_name_and_counts_by_address() -> None:
    with limiter(limit="1/minute") as limits:
        assert allowed(limits, [Request(client="", ip="192.0.2.1"), Request(ip="192.0.2.1")]) == [True, False]


def test_KY_14_a_path_parameter_does_not_make_a_new_bucket() -> None:
    guesses = [Request(path=f"/verify/{code}", ip="192.0.2.1") for code in range(20)]
    with limiter(limit="5/minute", key_by=["ip"], match={"path": "/verify/{code}"}) as limits:
        assert allowed(limits, guesses) == [True] * 5 + [False] * 15
        assert len(limits.store) == 1


@pytest.mark.parametrize(
    "variant",
    ["/login/", "//login", "/./login", "/x/../login", "/login;v=1", "/%6Cogin", "/login/.", "/../login", "/login//"],
)
def test_KY_17_no_spelling_of_a_path_escapes_its_rule(variant: str) -> None:
    with limiter(key_by=["ip"], match={"path": "/login"}) as limits:
        requests = [Request(path=path, ip="192.0.2.1") for path in ("/login", variant, variant, "/login")]
        assert allowed(limits, requests) == [True, True, False, False]
        assert len(limits.store) == 1


def test_KY_19_a_query_or_fragment_escapes_no_rule() -> None:
    paths = ["/login", "/login?x=1", "/login?x=2", "/login#f"]
    with limiter(key_by=["ip"], match={"path": "/login"}) as limits:
        assert allowed(limits, [Request(path=path, ip="192.0.2.1") for path in paths]) == [True, True, False, False]


def test_KY_20_head_counts_once_and_as_get() -> None:
    methods = ["GET", "HEAD", "HEAD", "GET", "GET", "HEAD"]
    with limiter(limit="5/minute", match={"path": "/r", "methods": ["GET"]}) as limits:
        decisions = [limits.check_request(Request(method=method, path="/r", client="acme")) for method in methods]
    assert [decision.remaining for decision in decisions] == [4, 3, 2, 1, 0, 0]
    assert [decision.allowed for decision in decisions] == [True] * 5 + [False]


def test_KY_10_a_misspelt_key_source_is_refused_and_a_right_one_is_used() -> None:
    with limiter(limit="1/minute", key_by=["header.X-Tenant"]) as limits:
        tenants = [Request(ip="192.0.2.1", headers={"x-tenant": name}) for name in ("k1", "k2", "k1")]
        assert allowed(limits, tenants) == [True, True, False]
    for misspelt in ("headr.x-tenant", "Header.x-tenant", "x_tenant"):
        with pytest.raises(UsageError, match="key_by has no"):
            limiter(key_by=[misspelt])
