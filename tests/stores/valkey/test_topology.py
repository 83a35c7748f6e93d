"""Which slot a key has and who owns it, as the specification of the cluster says."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from limen.errors import StoreError
from limen.stores.valkey.endpoint import Address
from limen.stores.valkey.names import Names
from limen.stores.valkey.topology import owners_of, parse_slots, slot_of

ASKED = Address("10.0.0.9", 7000)


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        (b"123456789", 0x31C3),  # the check value of the specification
        (b"foo", 12182),
        (b"{foo}.bar", 12182),
        (b"a{foo}b{bar}", 12182),
        (b"foo{}{bar}", 8363),
        (b"foo{{bar}}zap", 4015),
        (b"", 0),
    ],
)
def test_the_slots_of_the_specification(key: bytes, slot: int) -> None:
    assert slot_of(key) == slot


def test_an_empty_or_open_tag_is_none() -> None:
    assert slot_of(b"}{a}") == slot_of(b"a")
    assert slot_of(b"}a{") != slot_of(b"a")
    assert slot_of(b"{}x") != slot_of(b"{}y")


def test_keys_of_one_label_have_one_slot() -> None:
    names = Names("secret")
    assert len({slot_of(names.key(f"client={at}", "login")) for at in range(100)}) == 1
    assert len({slot_of(names.key(f"client={at}")) for at in range(100)}) > 90


def node(host: Any, port: int) -> list[Any]:
    return [host, port, b"0123456789abcdef", []]


def test_each_slot_has_the_owner_that_the_cluster_names() -> None:
    reply = [[0, 99, node(b"a", 1), node(b"replica", 2)], [100, 100, node(b"b", 2)], [16383, 16383, node(b"a", 1)]]
    owners = parse_slots(reply, ASKED)
    assert owners[0] == owners[99] == owners[16383] == Address("a", 1)
    assert owners[100] == Address("b", 2)
    assert owners[101] is None
    assert owners_of(owners) == {("a", 1), ("b", 2)}


@pytest.mark.parametrize("host", [b"", b"?", None])
def test_a_node_that_does_not_know_its_host_is_where_it_was_asked(host: Any) -> None:
    assert parse_slots([[0, 16383, node(host, 7001)]], ASKED)[5] == Address("10.0.0.9", 7001)


def test_a_node_that_refuses_to_tell_is_quoted() -> None:
    with pytest.raises(StoreError, match="ERR This instance has cluster support disabled") as caught:
        parse_slots(hiredis.ReplyError("ERR This instance has cluster support disabled"), ASKED)
    assert caught.value.kind == "refused"


@pytest.mark.parametrize(
    "reply",
    [None, 1, b"OK", [1], [[0]], [[0, 1, []]], [[0, 1, None]], [[0, 1, [b"a", b"x"]]], [[0, 16384, node(b"a", 1)]]],
)
def test_what_is_no_map_is_refused(reply: Any) -> None:
    with pytest.raises(StoreError, match=r"10\.0\.0\.9:7000 answered CLUSTER SLOTS with"):
        parse_slots(reply, ASKED)
