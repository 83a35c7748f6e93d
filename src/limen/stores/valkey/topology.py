"""Which node of a cluster keeps which key. Pure: nothing here sends or waits.

A key belongs to one of 16384 slots, by the CRC16 (XMODEM) of its hash tag: what stands between the first `{` and the
next `}`, when that is something, else the whole key (Redis Cluster Specification, "Hash tags"). A slot has one owner.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Iterable
from typing import Any

from limen.errors import StoreError
from limen.stores.valkey.endpoint import Address
from limen.stores.valkey.replies import classify, store_error

__all__ = ["ASKING", "SLOTS_COMMAND", "SLOT_COUNT", "owners_of", "parse_slots", "slot_of"]

SLOT_COUNT = 16_384
SLOTS_COMMAND = b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"
ASKING = b"*1\r\n$6\r\nASKING\r\n"
UNKNOWN_HOSTS = ("", "?")
"""A node that does not know how it is reached from outside: it is there where it was asked."""

Owners = list[Address | None]
"""For each slot, who decides about its keys."""


def slot_of(key: bytes) -> int:
    """The slot of a key."""
    begin = key.find(b"{") + 1
    if begin:
        end = key.find(b"}", begin)
        if end > begin:
            key = key[begin:end]
    return crc_hqx(key, 0) & (SLOT_COUNT - 1)


def parse_slots(reply: object, asked: Address) -> Owners:
    """The owner of each slot, from the answer to CLUSTER SLOTS.

    Args:
        asked: who answered.

    Raises:
        StoreError: that is not such an answer.
    """
    if isinstance(reply, Exception):
        raise store_error(classify(str(reply)), str(asked))
    owners: Owners = [None] * SLOT_COUNT
    try:
        for first, last, primary, *_ in _ranges(reply):
            owner = _address(primary, asked)
            owners[first : last + 1] = [owner] * (last + 1 - first)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise StoreError(f"{asked} answered CLUSTER SLOTS with {reply!r:.100}: is it a node of a cluster?") from error
    if len(owners) != SLOT_COUNT:
        raise StoreError(f"{asked} answered CLUSTER SLOTS with slots that no cluster has")
    return owners


def owners_of(slots: Owners) -> set[Address]:
    """All owners."""
    return {owner for owner in slots if owner is not None}


def _ranges(reply: object) -> Iterable[Any]:
    if not isinstance(reply, list):
        raise TypeError
    return reply


def _address(node: list[Any], asked: Address) -> Address:
    host = (node[0] or b"").decode()
    return Address(asked.host if host in UNKNOWN_HOSTS else host, int(node[1]))
