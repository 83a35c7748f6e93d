"""Commands and replies: what goes over the wire, and what comes back."""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from hashlib import sha1
from typing import Any

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.core.calendar_window import CalendarWindow
from limen.core.concurrency import SlotLimit, SlotsSeen
from limen.core.fixed_window import FixedWindow
from limen.core.limit import Limit
from limen.core.sliding_log import SlidingLog
from limen.core.sliding_window import SlidingWindow
from limen.errors import StoreError, UsageError
from limen.stores.base import Op, Slot
from limen.stores.valkey.names import Names, field_of
from limen.stores.valkey.script import PING, Commands, parse_bool, parse_seen, parse_slots, the_script

LIMIT = Limit(100, Fraction(100, 60))
NAMES = Names("secret")
DIGEST = sha1(the_script(), usedforsecurity=False).hexdigest().encode()
HOUR_US = 3_600_000_000


def words(command: bytes) -> list[bytes]:
    """A command as a server reads it; it must be exactly one."""
    reader = hiredis.Reader()
    reader.feed(command)
    found = reader.gets()
    assert reader.gets() is False
    assert isinstance(found, list)
    return found


def doubles(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


@pytest.fixture
def commands() -> Commands:
    return Commands(NAMES, epoch_us=lambda: 1_750_000_000_000_000)


def test_one_token_bucket_is_one_key_and_two_arguments(commands: Commands) -> None:
    assert words(commands.take([Op("client=acme", "search", LIMIT, 2)])) == [
        b"EVALSHA", DIGEST, b"1", NAMES.key("client=acme"),
        field_of("search"), doubles(600_000, 1, 60_000_000, 1_200_000),
    ]  # fmt: skip


def test_several_token_buckets_of_one_identity_are_two_arguments_each(commands: Commands) -> None:
    ops = [Op("a", "r", LIMIT, 1), Op("a", "s", LIMIT, 3)]
    assert words(commands.take(ops))[2:] == [
        b"1", NAMES.key("a"),
        field_of("r"), doubles(600_000, 1, 60_000_000, 600_000),
        field_of("s"), doubles(600_000, 1, 60_000_000, 1_800_000),
    ]  # fmt: skip


def test_operations_of_one_identity_share_a_key(commands: Commands) -> None:
    ops = [Op("a", "r", LIMIT, 1), Op("b", "r", LIMIT, 2, spend=False), Op("a", "s", LIMIT, 3, enforce=False)]
    found = words(commands.take(ops))
    assert found[2:7] == [b"2", NAMES.key("a"), NAMES.key("b"), b"take", b""]
    assert found[7:] == [
        b"2", field_of("r"), b"b", b"e", doubles(600_000, 1, 60_000_000, 600_000),
        field_of("s"), b"b", b"s", doubles(600_000, 1, 60_000_000, 1_800_000),
        b"1", field_of("r"), b"b", b"E", doubles(600_000, 1, 60_000_000, 1_200_000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "letter", "numbers"),
    [
        (FixedWindow(5, HOUR_US), b"f", (5, HOUR_US, 0, 2)),
        (SlidingWindow(5, HOUR_US), b"s", (5, HOUR_US, 1, 2, HOUR_US)),
        (SlidingLog(5, HOUR_US), b"l", (5, HOUR_US, 0, 2)),
        # 15 June 2025, 15:06:40 UTC; microseconds since 2025 began
        (CalendarWindow.of(5, "hour"), b"c", (5, 3975 * HOUR_US, 3976 * HOUR_US, 2, 3977 * HOUR_US)),
    ],
)
def test_every_algorithm_has_its_letter_and_its_own_field(
    commands: Commands, limit: Any, letter: bytes, numbers: tuple[int, ...]
) -> None:
    field, *rest = words(commands.take([Op("a", "r", limit, 2)]))[7:]
    assert rest == [letter, b"e", doubles(*numbers)]
    assert field not in (field_of("r"), field_of("s"))


def test_an_algorithm_that_the_script_does_not_know_is_refused(commands: Commands) -> None:
    class Other(FixedWindow):
        algorithm = "other"

    with pytest.raises(UsageError, match="does not know the algorithm 'other'"):
        commands.take([Op("a", "r", Other(5, HOUR_US), 1)])


def test_an_oversized_cost_stays_exact(commands: Commands) -> None:
    wide = Limit(10**9, Fraction(10**6))
    assert words(commands.take([Op("a", "r", wide, 10**9)]))[5][24:] == doubles(10**9)
    assert words(commands.take([Op("a", "r", LIMIT, 10**9)]))[5][24:] == doubles(60_600_000)


def test_what_is_taken_can_be_remembered_and_given_back(commands: Commands) -> None:
    ops = [Op("a", "r", LIMIT, 1), Op("a", "s", LIMIT, 1)]
    memory = NAMES.key("a") + b":" + bytes(16)
    taken = words(commands.take(ops, bytes(16)))
    assert taken[2:7] == [b"2", NAMES.key("a"), memory, b"take", bytes(16)]
    assert words(commands.undo(ops, bytes(16)))[2:] == [b"2", NAMES.key("a"), memory, b"undo"]
    assert words(commands.undo(ops, bytes(16), ops[1:]))[5:] == [b"undo", field_of("s")]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("rstu")), min_size=1, max_size=9, unique=True))
def test_what_was_seen_comes_back_in_the_order_of_the_operations(buckets: list[tuple[str, str]]) -> None:
    limits = {"r": LIMIT, "s": FixedWindow(5, HOUR_US), "t": SlidingWindow(5, HOUR_US), "u": SlidingLog(5, HOUR_US)}
    widths = {"r": 1, "s": 2, "t": 4, "u": 3}
    ops = [Op(identity, rule, limits[rule], 1) for identity, rule in buckets]
    groups: dict[str, list[int]] = {}
    for index, (identity, _) in enumerate(buckets):
        groups.setdefault(identity, []).append(index)
    reply = [index for members in groups.values() for index in members for _ in range(widths[buckets[index][1]])]
    seen = parse_seen(reply if len(reply) > 1 else reply[0], ops)
    assert [each if isinstance(each, int) else each[0] for each in seen] == list(range(len(ops)))
    assert [1 if isinstance(each, int) else len(each) for each in seen] == [widths[rule] for _, rule in buckets]


def test_what_is_encoded_once_follows_a_changed_limit(commands: Commands) -> None:
    commands.take([Op("a", "r", LIMIT, 1)])
    other = Limit(7, Fraction(1))
    assert words(commands.take([Op("a", "r", other, 1)]))[5] == doubles(1_000_000, 1, 7_000_000, 1_000_000)


@pytest.mark.parametrize(
    "reply", [None, "OK", b"5", [], [1], [1, 2, 3], [1, None], [1, b"2"], [1, True], -1, [1, -1], 1.5, 3]
)
def test_a_reply_that_does_not_tell_of_buckets_is_refused(reply: object) -> None:
    ops = [Op("a", "r", LIMIT, 1), Op("a", "s", LIMIT, 1)]
    with pytest.raises(StoreError, match="which is not what 2 buckets hold") as caught:
        parse_seen(reply, ops)
    assert caught.value.kind == "refused"


def test_resetting_forgets_the_buckets_of_every_algorithm(commands: Commands) -> None:
    key = NAMES.key("client=acme")
    assert words(commands.reset("client=acme", None)) == [b"DEL", key]
    algorithms = ("", " fixed_window", " calendar_window", " sliding_window", " sliding_log")
    names = ("search", "search@candidate")
    fields = [field_of(f"{name}{algorithm}") for name in names for algorithm in algorithms]
    assert words(commands.reset("client=acme", "search")) == [b"HDEL", key, *fields]
    assert words(commands.reset("client=acme", None, "login")) == [b"DEL", NAMES.key("client=acme", "login")]


def test_slots_are_a_set_beside_the_buckets(commands: Commands) -> None:
    slot = Slot("client=acme", "exports", SlotLimit(3, 5_000_000), "holder")
    key = NAMES.key("client=acme") + b":" + field_of("exports").hex().encode()
    assert words(commands.acquire(slot))[2:] == [b"1", key, b"acquire", b"holder", b"3", b"5000000"]
    assert words(commands.renew(slot))[2:] == [b"1", key, b"renew", b"holder", b"5000000"]
    assert words(commands.release(slot))[2:] == [b"1", key, b"release", b"holder"]
    assert parse_slots([2, 700]) == SlotsSeen(2, 700)
    assert [parse_bool(reply) for reply in (0, 1)] == [False, True]


@pytest.mark.parametrize("reply", [None, 1, [1], [1, -1], [b"1", 2], [1, 2, 3]])
def test_a_reply_that_does_not_tell_of_slots_is_refused(reply: object) -> None:
    with pytest.raises(StoreError, match="does not tell of slots"):
        parse_slots(reply)


@pytest.mark.parametrize("reply", [None, 2, -1, True, "1", [1]])
def test_a_reply_that_is_neither_yes_nor_no_is_refused(reply: object) -> None:
    with pytest.raises(StoreError, match="neither yes nor no"):
        parse_bool(reply)


def test_the_rest(commands: Commands) -> None:
    assert words(commands.load) == [b"SCRIPT", b"LOAD", the_script()]
    assert words(PING) == [b"PING"]


def test_no_word_looks_like_the_name_of_a_rule() -> None:
    """Four letters and an argument of 32 bytes are a rule and its numbers. `take` and `undo` never have such a one."""
    words = set(re.findall(rb"args\[1\] == '(\w+)'", the_script()))
    assert {b"take", b"undo", b"grant", b"charge"} < words
    assert {word for word in words if len(word) == 4} == {b"take", b"undo"}
