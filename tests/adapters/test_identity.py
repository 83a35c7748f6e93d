"""A client is who the directory says it is; everybody else is an address."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from limen.adapters.identity import (
    NOBODY,
    ApiKeyIdentity,
    BadIdentity,
    Identity,
    PeerAddress,
    guarded,
)
from limen.errors import UsageError


class Keys:
    def find(self, api_key: str, /) -> tuple[str, str, None] | None:
        return ("acme", "pro", None) if api_key == "secret-1" else None


def scope(*headers: tuple[str, str], client: Any = ("192.0.2.5", 50001)) -> dict[str, Any]:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return {"type": "http", "headers": raw, "client": client}


ACME = Identity("acme", "pro")


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([("X-API-Key", "secret-1")], ACME),
        ([("X-API-Key", " secret-1 ")], ACME),
        ([("Authorization", "Bearer secret-1")], ACME),
        ([("Authorization", "bearer  secret-1")], ACME),
        ([("X-API-Key", "secret-1"), ("Authorization", "Bearer other")], ACME),
        ([("X-API-Key", "unknown"), ("Authorization", "Bearer secret-1")], NOBODY),
        ([("X-API-Key", "")], NOBODY),
        ([("X-API-Key", "SECRET-1")], NOBODY),
        ([("Authorization", "Basic secret-1")], NOBODY),
        ([("Authorization", "Bearer")], NOBODY),
        ([("X_API_Key", "secret-1")], NOBODY),
        ([], NOBODY),
    ],
)
def test_the_key_names_the_client(headers: list[tuple[str, str]], found: Identity) -> None:
    assert ApiKeyIdentity(Keys())(scope(*headers)) == found


def test_a_doubled_key_is_a_contradiction_even_when_equal() -> None:
    for name in ("X-API-Key", "Authorization"):
        found = ApiKeyIdentity(Keys())(scope((name, "Bearer secret-1"), (name, "Bearer secret-1")))
        assert isinstance(found, BadIdentity)
        assert "2 times" in found.detail
        assert "secret" not in found.detail


def test_the_header_has_the_name_that_was_chosen() -> None:
    identify = ApiKeyIdentity(Keys(), header="X-Token")
    assert identify(scope(("x-token", "secret-1"))) == ACME
    assert identify(scope(("x-api-key", "secret-1"))) == NOBODY


def test_without_trusted_proxies_the_peer_is_the_client() -> None:
    address = PeerAddress()
    assert address(scope(("X-Forwarded-For", "203.0.113.66"))) == "192.0.2.5"


def test_trusted_proxies_are_believed_and_only_in_x_forwarded_for() -> None:
    address = PeerAddress(["192.0.2.0/24"])
    assert address(scope(("X-Forwarded-For", "127.0.0.1, 203.0.113.9"))) == "203.0.113.9"
    assert address(scope(("Forwarded", "for=127.0.0.1"), ("X_Forwarded_For", "127.0.0.1"))) == "192.0.2.5"


def test_networks_are_checked_at_once() -> None:
    with pytest.raises(UsageError, match="not a network"):
        PeerAddress(["10.0.0.0/99"])
    with pytest.raises(UsageError, match="a list"):
        PeerAddress("10.0.0.0/8")


def test_an_identify_that_raises_means_nobody_and_is_logged_once_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(scope: Any) -> Identity:
        raise KeyError("secret-1")

    identify = guarded(broken)
    with caplog.at_level(logging.ERROR):
        assert [identify(scope()) for _ in range(3)] == [NOBODY] * 3
    assert len(caplog.records) == 1
    assert "KeyError" in caplog.text
    assert "secret-1" not in caplog.text


def test_an_identify_may_return_nothing_a_contradiction_or_any_triple() -> None:
    assert guarded(lambda scope: None)(scope()) == NOBODY
    assert guarded(lambda scope: BadIdentity("no"))(scope()) == BadIdentity("no")
    assert guarded(lambda scope: ("acme", None, "ann"))(scope()) == Identity("acme", None, "ann")  # type: ignore[arg-type,return-value]
    assert guarded(lambda scope: 7)(scope()) == NOBODY  # type: ignore[arg-type,return-value]
