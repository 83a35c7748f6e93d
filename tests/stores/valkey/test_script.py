"""Commands and replies: what goes over the wire, and what comes back."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha1
from typing import Any

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.core.limit import Limit
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.names import Names, field_of
from limen.stores.valkey.script import PING, Commands, parse_levels, take_script

LIMIT = Limit(100, Fraction(100, 60))


def words(command: bytes) -> list[bytes]:
    """A command as a server reads it; it must be exactly one."""
    reader = hiredis.Reader()
    reader.feed(command)
    found = reader.gets()
    assert reader.gets() is False
    assert isinstance(found, list)
    return found


@pytest.fixture
def commands() -> Commands:
    return Commands(Names("secret"))


def test_one_operation_is_one_key_and_six_arguments(commands: Commands) -> None:
    digest = sha1(take_script(), usedforsecurity=False).hexdigest().encode()
    op = Op("client=acme", "search", LIMIT, 2)
    assert words(commands.take([op])) == [
        b"EVALSHA", digest, b"1", Names("secret").key("client=acme"), b"1", field_of("search"),
        b"600000", b"1", b"60000000", b"1200000", b"1",
    ]  # fmt: skip


def test_operations_of_one_identity_share_a_key(commands: Commands) -> None:
    ops = [Op("a", "r", LIMIT, 1), Op("b", "r", LIMIT, 2), Op("a", "s", LIMIT, 3, False)]
    found = words(commands.take(ops))
    names = Names("secret")
    assert found[2:5] == [b"2", names.key("a"), names.key("b")]
    assert found[5:] == [
        b"2", field_of("r"), b"600000", b"1", b"60000000", b"600000", b"1",
        field_of("s"), b"600000", b"1", b"60000000", b"1800000", b"0",
        b"1", field_of("r"), b"600000", b"1", b"60000000", b"1200000", b"1",
    ]  # fmt: skip


def test_an_oversized_cost_stays_exact(commands: Commands) -> None:
    wide = Limit(10**9, Fraction(10**6))
    assert words(commands.take([Op("a", "r", wide, 10**9)]))[9] == b"1000000000"
    assert words(commands.take([Op("a", "r", LIMIT, 10**9)]))[9] == b"60600000"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("rstu")), min_size=1, max_size=9, unique=True))
def test_levels_come_back_in_the_order_of_the_operations(buckets: list[tuple[str, str]]) -> None:
    ops = [Op(identity, rule, LIMIT, 1) for identity, rule in buckets]
    found = words(Commands(Names(None)).take(ops))
    count = int(found[2])
    names = {Names(None).key(identity): identity for identity in "abcd"}
    rules = {field_of(rule): rule for rule in "rstu"}
    asked, rest = [], found[3 + count :]
    for key in found[3 : 3 + count]:
        fields, rest = [rest[1 + at * 6] for at in range(int(rest[0]))], rest[1 + int(rest[0]) * 6 :]
        asked += [(names[key], rules[field]) for field in fields]
    reply: Any = [buckets.index(bucket) for bucket in asked]
    assert list(parse_levels(reply if len(ops) > 1 else reply[0], ops)) == list(range(len(ops)))


def test_what_is_encoded_once_follows_a_changed_limit(commands: Commands) -> None:
    commands.take([Op("a", "r", LIMIT, 1)])
    other = Limit(7, Fraction(1))
    assert words(commands.take([Op("a", "r", other, 1)]))[6:9] == [b"1000000", b"1", b"7000000"]


@pytest.mark.parametrize(
    "reply", [None, "OK", b"5", [], [1], [1, 2, 3], [1, None], [1, b"2"], [1, True], -1, [1, -1], 1.5, 3]
)
def test_a_reply_that_is_not_levels_is_refused(reply: object) -> None:
    ops = [Op("a", "r", LIMIT, 1), Op("a", "s", LIMIT, 1)]
    with pytest.raises(StoreError, match="not a list of 2 levels") as caught:
        parse_levels(reply, ops)
    assert caught.value.kind == "refused"


def test_resetting_and_the_rest(commands: Commands) -> None:
    key = Names("secret").key("client=acme")
    assert words(commands.reset("client=acme", None)) == [b"DEL", key]
    assert words(commands.reset("client=acme", "search")) == [b"HDEL", key, field_of("search")]
    assert words(commands.load) == [b"SCRIPT", b"LOAD", take_script()]
    assert words(PING) == [b"PING"]
