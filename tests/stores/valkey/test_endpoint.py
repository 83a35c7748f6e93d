"""From a URL to a server: every spelling, and errors that never repeat a password."""

from __future__ import annotations

import pytest

from limen.engine.aio import AsyncLimiter
from limen.errors import SettingsError
from limen.stores.valkey.endpoint import Address, Endpoint, Tls
from limen.stores.valkey.url import SCHEMES, parse_endpoint, parse_target


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("valkey://localhost", Endpoint("localhost")),
        ("redis://localhost:7000/3", Endpoint("localhost", 7000, 3)),
        ("valkeys://example.com:6380", Endpoint("example.com", 6380, tls=Tls())),
        ("rediss://example.com", Endpoint("example.com", tls=Tls())),
        ("valkey://user:p%40ss%2Fword@[::1]:6379/0", Endpoint("::1", 6379, 0, "user", "p@ss/word")),
        ("valkey://:secret@localhost/", Endpoint("localhost", password="secret")),
    ],
)
def test_spellings(url: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(url) == endpoint


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("valkey://", "has no host"),
        ("valkey://user:secret@", "has no host"),
        ("valkey://user:secret@host:port", "no readable host and port"),
        ("valkey://user:secret@host:99999", "no readable host and port"),
        ("valkey://user:secret@host/name", "is not the number of a database"),
        ("valkey://user:secret@host/0/1", "is not the number of a database"),
        ("valkey://user:secret@host:0", "a port is a number from 1 to 65535"),
        ("valkey://user:secret@::1:6379", "an IPv6 address stands in brackets|no host"),
        ("valkey://user:secret@[::1", "an IPv6 address stands in brackets"),
        ("valkey://user:secret@host/0?x=1", "has the option 'x', which is none of tls_ca"),
        ("valkey://user:secret@host/0#1", "has a # behind the host"),
        ("valkey://user:secret@a,b", r"several hosts; for a cluster it begins with valkey\+cluster://"),
        ("valkey://user:secret@host?tls_ca=/ca.pem", "does not speak TLS; begin it with valkeys"),
        ("valkeys://user:secret@host?tls_verify=no", "tls_verify that is neither full nor none"),
        ("valkeys://user:secret@host?tls_verify=none&tls_verify=full", "has the option 'tls_verify' twice"),
        ("valkeys://user:secret@host?tls_key=/key.pem", "tls_key without a tls_cert"),
        ("valkeys://host?tls_ca=/secret@a", "an @ in its options; there it is written %40"),
        ("valkeys://user:secret@host?tls_ca=/no/such/file", "names '/no/such/file' as tls_ca, which is not a file"),
        ("valkey+cluster://user:secret@a,b/1", "a cluster has only number 0"),
        ("valkey+cluster://user:secret@a,,b", "has no host"),
        ("valkey+sentinel://user:secret@a,b", "lacks the name"),
        ("valkey+sentinel://user:secret@a,b/main/x", "is not the number of a database"),
        ("valkey+cluster://user:secret@a?sentinel_password=secret", "has the option 'sentinel_password'"),
        ("http://user:secret@host", "a store is memory://, valkey://"),
        ("memory", "a store is memory://"),
        ("", "a store is memory://"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(url: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        AsyncLimiter(url)
    assert "secret" not in str(caught.value)


def test_a_server_is_shown_without_its_password() -> None:
    endpoint = parse_endpoint("valkeys://user:secret@host:1/2")
    assert str(endpoint) == "valkeys://host:1/2"
    assert "secret" not in repr(endpoint)


@pytest.mark.parametrize("deadline_ms", [0, -1, 0.4, 60_001, float("nan"), float("inf")])
def test_a_deadline_that_cannot_be_kept_or_never_ends_is_refused(deadline_ms: float) -> None:
    with pytest.raises(SettingsError, match="deadline_ms must be"):
        AsyncLimiter("memory://", deadline_ms=deadline_ms)


@pytest.mark.parametrize(
    "password", ["p@ss", "p/ss", "p#ss", "p?ss", "p:ss", "p@s:s/w#r?d", "p%25ss", "pä€ss", "+", "a b"]
)
def test_a_password_may_hold_any_character_as_it_is(password: str) -> None:
    endpoint = parse_endpoint(f"valkey://user:{password}@host:7000/3")
    assert endpoint == Endpoint("host", 7000, 3, "user", password.replace("%25", "%"))


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_every_scheme_has_its_kind_and_speaks_tls_or_not(scheme: str) -> None:
    kind, tls = SCHEMES[scheme]
    target = parse_target(f"{scheme}://user:secret@host" + ("/main" if kind == "sentinel" else ""))
    assert target.kind == kind
    assert (target.login.tls is not None) is tls is (scheme.partition("+")[0] in ("valkeys", "rediss"))
    assert (target.login.username, target.login.password) == ("user", "secret")
    assert "secret" not in str(target) + repr(target)


def test_a_cluster_is_known_by_some_of_its_nodes() -> None:
    target = parse_target("valkey+cluster://user:secret@a:7000,b,[::1]:7001,[2001:db8::2]/0")
    addresses = [Address("a", 7000), Address("b", 6379), Address("::1", 7001), Address("2001:db8::2", 6379)]
    assert [seed.address for seed in target.seeds] == addresses
    assert {(seed.username, seed.password) for seed in target.seeds} == {("user", "secret")}
    assert str(target) == "valkey+cluster://a:7000,b:6379,[::1]:7001,[2001:db8::2]:6379"


def test_sentinels_have_a_login_of_their_own() -> None:
    options = "sentinel_user=watch&sentinel_password=p%40ss+w"
    target = parse_target(f"valkey+sentinel://user:secret@s1,s2:27000/main/2?{options}")
    assert target.name == "main"
    assert target.seeds == (
        Endpoint("s1", 26379, 0, "watch", "p@ss+w"),
        Endpoint("s2", 27000, 0, "watch", "p@ss+w"),
    )
    assert target.login.at("primary", 6380) == Endpoint("primary", 6380, 2, "user", "secret")


def test_how_each_side_of_tls_proves_who_it_is() -> None:
    tls = parse_target("valkeys+cluster://a?tls_ca=/ca.pem&tls_cert=/my.pem&tls_key=/my.key").login.tls
    assert tls == Tls("/ca.pem", "/my.pem", "/my.key", True)
    assert parse_endpoint("rediss://a?tls_verify=none").tls == Tls(verify=False)
