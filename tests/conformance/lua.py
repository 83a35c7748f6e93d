"""The script that ships, on real servers, under time that the test moves."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from copy import copy
from itertools import count

import hiredis

from limen.core.algorithm import Seen
from limen.stores.base import Borrow, Charge, Lent, Op, bucket_name
from limen.stores.valkey.marks import Mark, parse_mark
from limen.stores.valkey.names import Names, field_of
from limen.stores.valkey.script import Commands, parse_alive, parse_charged, parse_lent, parse_seen, the_script

__all__ = ["START_US", "Lua"]

US = 1_000_000
START_US = 1_750_000_000 * US
VIRTUAL_TIME = b"redis.call('MGET', 'virtual seconds', 'virtual microseconds')"


class Lua:
    """The script that ships, on a real server, one question at a time."""

    runs = count()

    def __init__(self, port: int) -> None:
        script = re.sub(rb"(redis\.)?call\('TIME'\)", VIRTUAL_TIME, the_script())
        # Keys expire in real time: on a busy machine one could be gone in the middle of a story of virtual seconds.
        script, patient = re.subn(rb"30000\) \+ 1000\)", b"30000) + 3600000)", script)
        assert patient == 2
        self.now_us = START_US
        self._commands = Commands(Names(None), script, lambda: self.now_us)
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._reader = hiredis.Reader()
        self.ask(self._commands.load)
        self._run = 0

    def begin(self) -> None:
        """From now on all buckets are new."""
        self._run = next(self.runs)

    def take(self, ops: Sequence[Op], now_us: int) -> Sequence[Seen]:
        self._at(now_us)
        renamed = [self._named(op) for op in ops]
        return parse_seen(self.ask(self._commands.take(renamed)), renamed)

    def grant(self, op: Op, tokens: int, for_us: int, now_us: int) -> Seen:
        self._at(now_us)
        return parse_seen(self.ask(self._commands.grant(self._named(op), tokens, for_us)), [op])[0]

    def borrow(self, borrow: Borrow, now_us: int) -> Lent:
        self._at(now_us)
        return parse_lent(self.ask(self._commands.borrow(borrow._replace(op=self._named(borrow.op)))))

    def charge(self, charge: Charge, now_us: int) -> Seen:
        self._at(now_us)
        renamed = charge._replace(op=self._named(charge.op))
        self.charged = parse_charged(self.ask(self._commands.charge(renamed)), charge.op)
        return self.charged.seen

    def mark(self, known: bytes, fresh: bytes, now_us: int, lost_us: int = 0, slot: int = 0) -> Mark:
        """Look at the mark in a slot."""
        self._at(now_us)
        return parse_mark(self.ask(self._commands.mark(slot, known, fresh, lost_us)))

    def after_loss(self, lost_us: int) -> Lua:
        """The same server, to which it is said from now on that it lost its memory then, by its own clock."""
        told = copy(self)
        told._commands = self._commands.after_loss(lost_us)
        return told

    def reset(self, op: Op, rule: str | None) -> None:
        named = self._named(op)
        self.ask(self._commands.reset(named.identity, rule, op.colocate))

    def beat(self, gateway: str, now_us: int) -> tuple[int, int]:
        self._at(now_us)
        return parse_alive(self.ask(self._commands.beat(gateway)))

    def leave(self, gateway: str, now_us: int) -> None:
        self._at(now_us)
        self.ask(self._commands.leave(gateway))

    def overwrite_gateways(self, value: bytes | None) -> None:
        """Put something else where it is kept who is alive; None: something of another type."""
        key = self._commands.gateways_key("")
        self.ask(hiredis.pack_command(("DEL", key)))
        words = ("SET", key, value, "EX", 60) if value is not None else ("SADD", key, "what is this")
        self.ask(hiredis.pack_command(words))

    def take_remembered(self, ops: Sequence[Op], undo: bytes, now_us: int) -> Sequence[Seen]:
        """Take so that it can be given back."""
        self._at(now_us)
        renamed = [self._named(op) for op in ops]
        return parse_seen(self.ask(self._commands.take(renamed, undo)), renamed)

    def undo(self, ops: Sequence[Op], undo: bytes, now_us: int, kept: Sequence[Op] = ()) -> object:
        """How many buckets were given back."""
        self._at(now_us)
        return self.ask(self._commands.undo([self._named(op) for op in ops], undo, kept))

    def place(self, op: Op) -> tuple[bytes, bytes]:
        """The key of a bucket, and its field."""
        named = self._named(op)
        return self._commands.names.key(named.identity), field_of(bucket_name(op.rule, op.limit.algorithm))

    def lives_ms(self, op: Op) -> int:
        """For how many milliseconds the key of a bucket lives."""
        found = self.ask(hiredis.pack_command(("PTTL", self._commands.names.key(self._named(op).identity))))
        assert isinstance(found, int)
        return found

    def ask(self, command: bytes) -> object:
        self._socket.sendall(command)
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(65_536))
        return reply

    def close(self) -> None:
        self._socket.close()

    def _named(self, op: Op) -> Op:
        return op._replace(identity=f"{self._run} {op.identity}")

    def _at(self, now_us: int) -> None:
        self.now_us = now_us
        seconds, microseconds = divmod(now_us, US)
        self.ask(hiredis.pack_command(("MSET", "virtual seconds", seconds, "virtual microseconds", microseconds)))
