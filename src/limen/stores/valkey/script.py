"""Store operations as commands, and replies as levels. Pure: nothing here sends or waits."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha1
from importlib.resources import files

from limen.core.limit import Limit
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.names import KEY_LENGTH, Names, field_of

__all__ = ["PING", "Commands", "parse_levels", "take_script"]

KEY_HEAD = b"\r\n$%d\r\n" % KEY_LENGTH
PING = b"*1\r\n$4\r\nPING\r\n"
MAX_FRAGMENTS = 50_000


def take_script() -> bytes:
    """The text of the script that decides."""
    return (files(__package__) / "scripts" / "take.lua").read_bytes()


class Commands:
    """Builds commands. What is the same in every request under a rule is encoded once.

    Args:
        names: keys from identities.
    """

    def __init__(self, names: Names, script: bytes | None = None) -> None:
        script = take_script() if script is None else script
        digest = sha1(script, usedforsecurity=False).hexdigest().encode()
        self._names = names
        self._evalsha = b"\r\n$7\r\nEVALSHA\r\n$40\r\n" + digest
        self._one_op = b"*11" + self._evalsha + b"\r\n$1\r\n1" + KEY_HEAD
        self._fragments: dict[tuple[str, int, bool], tuple[Limit, bytes]] = {}
        self.load = _command(b"SCRIPT", b"LOAD", script)

    def take(self, ops: Sequence[Op]) -> bytes:
        """One EVALSHA for all operations; those of one identity share a key."""
        if len(ops) == 1:
            op = ops[0]
            return self._one_op + self._names.key(op.identity) + b"\r\n$1\r\n1" + self._fragment(op) + b"\r\n"
        return self._take_many(ops)

    def reset(self, identity: str, rule: str | None) -> bytes:
        """Forget one bucket, or all of an identity."""
        key = self._names.key(identity)
        return _command(b"DEL", key) if rule is None else _command(b"HDEL", key, field_of(rule))

    def _take_many(self, ops: Sequence[Op]) -> bytes:
        groups = grouped(ops)
        count = 3 + 2 * len(groups) + 6 * len(ops)
        parts = [b"*%d" % count, self._evalsha, _number(len(groups))]
        for identity in groups:
            parts += (KEY_HEAD, self._names.key(identity))
        for members in groups.values():
            parts.append(_number(len(members)))
            parts += [self._fragment(ops[index]) for index in members]
        parts.append(b"\r\n")
        return b"".join(parts)

    def _fragment(self, op: Op) -> bytes:
        """The arguments of one operation, each beginning with a line end."""
        name = (op.rule, op.cost, op.enforce)
        found = self._fragments.get(name)
        if found is not None and found[0] is op.limit:
            return found[1]
        if len(self._fragments) >= MAX_FRAGMENTS:
            self._fragments.clear()
        fragment = _arguments(op)
        self._fragments[name] = (op.limit, fragment)
        return fragment


def grouped(ops: Sequence[Op]) -> dict[str, list[int]]:
    """The positions of the operations of each identity, in order of appearance."""
    groups: dict[str, list[int]] = {}
    for index, op in enumerate(ops):
        groups.setdefault(op.identity, []).append(index)
    return groups


def parse_levels(reply: object, ops: Sequence[Op]) -> Sequence[int]:
    """The levels in the order of `ops`.

    Raises:
        StoreError: the reply is not what the script answers.
    """
    if type(reply) is int:
        reply = [reply]
    if type(reply) is not list or len(reply) != len(ops) or not all(map(_is_level, reply)):
        raise StoreError(f"the store answered {reply!r:.100}, which is not a list of {len(ops)} levels", "refused")
    if len(ops) <= 2:
        return reply  # too few to be out of order
    order = [index for members in grouped(ops).values() for index in members]
    levels = [0] * len(ops)
    for index, level in zip(order, reply, strict=True):
        levels[index] = level
    return levels


def _arguments(op: Op) -> bytes:
    limit = op.limit
    # One token more than the capacity is as impossible as any larger cost, and stays exact in the script.
    cost = min(op.cost, limit.capacity + 1) * limit.token_ticks
    numbers = (limit.token_ticks, limit.ticks_per_us, limit.full_ticks, cost, int(op.enforce))
    return _bulk(field_of(op.rule)) + b"".join(map(_number, numbers))


def _is_level(value: object) -> bool:
    return type(value) is int and value >= 0


def _number(value: int) -> bytes:
    text = b"%d" % value
    return b"\r\n$%d\r\n%b" % (len(text), text)


def _bulk(value: bytes) -> bytes:
    """An argument, beginning with a line end."""
    return b"\r\n$%d\r\n%b" % (len(value), value)


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
