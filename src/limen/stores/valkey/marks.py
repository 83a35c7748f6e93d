"""Marks on the memory of servers: whoever finds one gone knows that the server has forgotten. Pure.

A server that crashed and came back empty looks like any other. So gateways leave a mark on each, and remember it; one
that comes back to a server and finds no mark, or another one, writes down the moment of the loss. Everybody reads it,
and until a limit has had time to fill up, a bucket that the server does not know begins with a tenth.

In a cluster a mark lies in one of the slots of its server, and goes with that slot, wherever it is moved: what is
looked for is always the mark of a slot, at whoever owns it now. The slot is chosen by the name: CRC16 is linear, so
the few bits that choose it are found by solving a small system of equations instead of by trying.
"""

from __future__ import annotations

from binascii import crc_hqx
from functools import lru_cache
from secrets import token_hex
from typing import NamedTuple

from limen.errors import StoreError
from limen.stores.valkey.topology import SLOT_COUNT

__all__ = ["MARK_HEAD", "Mark", "fresh_id", "mark_key", "parse_mark"]

PREFIX = b"limen/shard/mark"
MARK_HEAD = b"limen{" + PREFIX
"""What the keys of all marks begin with."""
LETTERS, BITS = b"HHHHHH", (0x01, 0x02, 0x04, 0x20)
"""Each letter may have these bits turned over, and is a letter still."""


class Mark(NamedTuple):
    """What a server says of its mark, in microseconds of its own clock."""

    id: bytes
    lost_us: int
    """When it lost its memory, 0 when never."""
    now_us: int


def fresh_id() -> bytes:
    """A name for a new mark."""
    return token_hex(8).encode()


@lru_cache(maxsize=1024)
def mark_key(slot: int) -> bytes:
    """The key of the mark in a slot."""
    letters = bytearray(LETTERS)
    missing = _slot_of(letters) ^ slot
    for highest, effect, turns in _basis():
        if missing & highest:
            missing ^= effect
            for place, bit in turns:
                letters[place] ^= bit
    return MARK_HEAD + bytes(letters) + b"}"


def parse_mark(reply: object) -> Mark:
    """
    Raises:
        StoreError: the reply is not what the script answers.
    """
    match reply:
        case [bytes(name), int(lost_us), int(now_us)]:
            return Mark(name, lost_us, now_us)
    raise StoreError(f"the store answered {reply!r:.100}, which does not tell of a mark", "refused")


def _slot_of(letters: bytes | bytearray) -> int:
    return crc_hqx(PREFIX + letters, 0) & (SLOT_COUNT - 1)


@lru_cache(maxsize=1)
def _basis() -> list[tuple[int, int, frozenset[tuple[int, int]]]]:
    """(a bit of the slot, all bits that turn over together with it, what has to be turned over for that), highest bit
    first (Gaussian elimination over single bits)."""
    rows: list[tuple[int, frozenset[tuple[int, int]]]] = []
    for place in range(len(LETTERS)):
        for bit in BITS:
            letters = bytearray(LETTERS)
            letters[place] ^= bit
            rows.append((_slot_of(letters) ^ _slot_of(LETTERS), frozenset({(place, bit)})))
    basis = []
    for highest in (1 << place for place in reversed(range(SLOT_COUNT.bit_length() - 1))):
        pivot = next(row for row in rows if row[0] & highest)
        rows = [(row[0] ^ pivot[0], row[1] ^ pivot[1]) if row[0] & highest else row for row in rows if row is not pivot]
        basis.append((highest, *pivot))
    return basis
