"""Names of buckets: one for each identity, and nothing in them that a client chose."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.errors import SettingsError
from limen.stores.valkey import names as names_module
from limen.stores.valkey.names import Names, field_of


@given(st.text(st.characters(), max_size=200))
def test_every_key_has_one_shape(identity: str) -> None:
    key = Names("secret").key(identity)
    assert re.fullmatch(rb"limen\{[A-Za-z0-9+/]{22}\}", key)
    assert len(key) == 29


@given(st.lists(st.text(st.characters(), max_size=20), unique=True, max_size=20))
def test_different_identities_have_different_keys(identities: list[str]) -> None:
    names = Names("secret")
    assert len({names.key(identity) for identity in identities}) == len(identities)


def test_processes_with_the_same_secret_agree_and_others_do_not() -> None:
    assert Names("secret").key("client=acme") == Names(b"secret").key("client=acme")
    assert len({Names(secret).key("client=acme") for secret in ("secret", "other", None)}) == 3


def test_a_secret_that_would_be_cut_off_is_refused() -> None:
    with pytest.raises(SettingsError, match="65 bytes long; at most 64"):
        Names("x" * 65)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "MAX_REMEMBERED", 100)
    names = Names(None)
    keys = [names.key(f"client={number}") for number in range(1000)]
    assert len(names._known) <= 100
    assert [names.key(f"client={number}") for number in range(1000)] == keys


def test_a_rule_is_four_bytes() -> None:
    assert len(field_of("search")) == 4
    assert len({field_of(f"rule-{number}") for number in range(1000)}) == 1000
