"""From a URL to a server: every spelling, and errors that never repeat a password."""

from __future__ import annotations

import pytest

from limen.engine.aio import AsyncLimiter
from limen.errors import SettingsError
from limen.stores.valkey.endpoint import Endpoint, parse_endpoint


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("valkey://localhost", Endpoint("localhost")),
        ("redis://localhost:7000/3", Endpoint("localhost", 7000, 3)),
        ("valkeys://example.com:6380", Endpoint("example.com", 6380, tls=True)),
        ("rediss://example.com", Endpoint("example.com", tls=True)),
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
        ("valkey://user:secret@host/0?x=1", "has a query"),
        ("valkey+cluster://user:secret@a,b", "not supported"),
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
