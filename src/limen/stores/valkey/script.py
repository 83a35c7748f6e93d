"""Store operations as commands, and replies as what was seen. Pure: nothing here sends or waits.

There is one script (`scripts/`, joined in the order of PARTS), so a server has to be given one thing once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b, sha1
from importlib.resources import files
from struct import Struct
from time import time_ns

from limen.core.algorithm import AnyLimit, Seen
from limen.core.carry import AS_IS, Carry, CarryOver
from limen.core.concurrency import SlotsSeen
from limen.core.limit import Limit
from limen.errors import StoreError
from limen.stores.base import Borrow, Charge, Charged, Lent, Op, Slot, bucket_name, bucket_names
from limen.stores.valkey.marks import mark_key
from limen.stores.valkey.names import PREVIOUS, Names, field_of
from limen.stores.valkey.wire import EPOCH_US, WIDTHS, numbers_of

__all__ = [
    "PING",
    "Commands",
    "greeting",
    "parse_alive",
    "parse_bool",
    "parse_charged",
    "parse_lent",
    "parse_seen",
    "parse_slots",
    "the_script",
]

PARTS = (
    "take_one", "head", "token_bucket", "take_two", "take_plain", "young", "mark", "slot", "carry", "kinds",
    "fixed_window", "sliding_window", "sliding_log", "ops", "take", "undo", "grant", "charge", "gateways", "lease",
)  # fmt: skip
KEY_HEAD = b"\r\n$29\r\n"
"""What stands before a key that is not colocated."""
PING = b"*1\r\n$4\r\nPING\r\n"
NUMBERS, LAST = Struct("<4d"), Struct("<d")
"""As doubles, which the script's numbers are, and which it reads five times as fast as text."""
CARRY = Struct("<6d")
HOW: dict[CarryOver, bytes] = {"as-is": b"a", "proportional": b"p", "additive": b"d", "reset": b"r"}
MODES = {(True, True): b"e", (False, True): b"s", (True, False): b"E", (False, False): b"S"}
MAX_FRAGMENTS = 50_000
EXACT = 2**53
GATEWAYS = "\0gateways"
"""Where it is kept who is alive. No identity of a client begins so."""


def the_script() -> bytes:
    """The text of the script that decides."""
    folder = files(__package__) / "scripts"
    return b"".join((folder / f"{part}.lua").read_bytes() for part in PARTS)


def system_epoch_us() -> int:
    """Microseconds since 1970 by this machine: which window of a calendar it is, give or take one."""
    return time_ns() // 1000


class Commands:
    """Builds commands. What is the same in every request under a rule is encoded once.

    Args:
        names: keys from identities.
        script: another text than the one that ships.
        epoch_us: the time of day, for calendars.
    """

    def __init__(
        self, names: Names, script: bytes | None = None, epoch_us: Callable[[], int] = system_epoch_us
    ) -> None:
        script = the_script() if script is None else script
        digest = sha1(script, usedforsecurity=False).hexdigest().encode()
        self.names = names
        self.load = _command(b"SCRIPT", b"LOAD", script)
        self._epoch_us = epoch_us
        self._evalsha = b"\r\n$7\r\nEVALSHA\r\n$40\r\n" + digest
        self._one = b"*6" + self._evalsha + b"\r\n$1\r\n1" + KEY_HEAD
        self._fragments: dict[tuple[str, int], tuple[Limit, bytes]] = {}

    def take(self, ops: Sequence[Op], undo: bytes = b"") -> bytes:
        """One EVALSHA for all operations; those of one identity share a key.

        Args:
            undo: when given, the server remembers for ten seconds under this name what it took (see `undo`).
        """
        if len(ops) == 1 and not undo:
            op = ops[0]
            if type(op.limit) is Limit and op.spend and not op.colocate and op.carry is None:
                return self._one + self.names.key(op.identity) + self._fragment(op, op.limit) + b"\r\n"
        elif not undo and _plain(ops):
            return self._take_plain(ops)
        return self._take_many(ops, undo)

    def undo(self, ops: Sequence[Op], undo: bytes, kept: Sequence[Op] = ()) -> bytes:
        """Give back what the take of these operations under that name took: once, and nothing if it took nothing.

        Args:
            kept: those of them whose buckets stay charged.
        """
        keys = self._keys(ops)
        fields = [field_of(bucket_name(op.rule, op.limit.algorithm)) for op in kept]
        return self._call([*keys, _memory_key(keys[0], undo)], b"undo", *fields)

    def grant(self, op: Op, tokens: int, for_us: int) -> bytes:
        """Add tokens to a bucket that lapse after `for_us`."""
        numbers = (b"%d" % tokens, b"%d" % for_us)
        return self._call(self._keys([op]), b"grant", *numbers, *self._arguments(op._replace(cost=0)))

    def charge(self, charge: Charge) -> bytes:
        """Take what was admitted elsewhere, once; then leave no more than so much."""
        op, most, name = charge
        keys = self._keys([op])
        if op.cost:
            keys.append(_memory_key(keys[0], _name_here(name, keys[0], op)))
        unit = op.limit.token_ticks if type(op.limit) is Limit else 1
        cost = min(op.cost, EXACT // unit) * unit
        return self._call(keys, b"charge", b"" if most is None else b"%d" % most, *self._arguments(op, cost))

    def gateways_key(self, gateway: str) -> bytes:
        """The key of the record of who is alive; by the previous secret, if the name begins so."""
        return self.names.tag(PREVIOUS + GATEWAYS if gateway.startswith(PREVIOUS) else GATEWAYS)

    def beat(self, gateway: str) -> bytes:
        """This gateway is alive."""
        return self._call([self.gateways_key(gateway)], b"alive", gateway.removeprefix(PREVIOUS).encode())

    def leave(self, gateway: str) -> bytes:
        """This gateway is gone."""
        return self._call([self.gateways_key(gateway)], b"leave", gateway.removeprefix(PREVIOUS).encode())

    def borrow(self, borrow: Borrow) -> bytes:
        """Take a lease on tokens, take it anew, or give it back."""
        op, (holder, *numbers) = borrow
        words = (holder, *(b"%d" % number for number in numbers), field_of(f"{op.rule} leases"))
        return self._call(self._keys([op]), b"lease", *words, *self._arguments(op))

    def mark(self, slot: int, known: bytes, fresh: bytes, lost_us: int) -> bytes:
        """Look at the mark in a slot, and make one where there is none.

        Args:
            known: the id that must be there; without one, nothing is lost when there is none.
            fresh: the id of a new one.
            lost_us: when the server lost its memory, as far as that is known otherwise; 0 when it did not.
        """
        return self._call([mark_key(slot)], b"marks", known, fresh, b"%d" % lost_us)

    def after_loss(self, lost_us: int) -> Commands:
        """The same for a server that lost its memory then: what it does not know begins with a tenth."""
        return _AfterLoss(self, lost_us)

    def reset(self, identity: str, rule: str | None, colocate: str = "") -> bytes:
        """Forget one bucket, whatever counts in it, or all of an identity."""
        key = self.names.key(identity, colocate)
        if rule is None:
            return _command(b"DEL", key)
        return _command(b"HDEL", key, *map(field_of, bucket_names(rule)))

    def acquire(self, slot: Slot) -> bytes:
        """Hold a slot if one is free."""
        numbers = (b"%d" % slot.limit.capacity, b"%d" % slot.limit.lease_us)
        return self._call([self.names.slots_key(slot)], b"acquire", slot.holder.encode(), *numbers)

    def renew(self, slot: Slot) -> bytes:
        """Hold it for longer."""
        return self._call([self.names.slots_key(slot)], b"renew", slot.holder.encode(), b"%d" % slot.limit.lease_us)

    def release(self, slot: Slot) -> bytes:
        """Let it go."""
        return self._call([self.names.slots_key(slot)], b"release", slot.holder.encode())

    def _take_plain(self, ops: Sequence[Op]) -> bytes:
        """Several enforced token buckets under one key."""
        head = b"*%d" % (4 + 2 * len(ops)) + self._evalsha + _bulks(b"1", *self._keys(ops[:1]))
        return head + b"".join(self._fragment(op, op.limit) for op in ops if type(op.limit) is Limit) + b"\r\n"

    def _take_many(self, ops: Sequence[Op], undo: bytes) -> bytes:
        groups = grouped(ops)
        keys = [self.names.key(*group) for group in groups]
        words = [b"take", undo]
        for members in groups.values():
            words.append(b"%d" % len(members))
            for index in members:
                words += self._arguments(ops[index])
        return self._call([*keys, _memory_key(keys[0], undo)] if undo else keys, *words)

    def _keys(self, ops: Sequence[Op]) -> list[bytes]:
        return [self.names.key(*group) for group in grouped(ops)]

    def _arguments(self, op: Op, cost: int | None = None) -> list[bytes]:
        """The arguments of one operation; `cost` replaces its own, in the unit of the script."""
        letter, numbers = numbers_of(op.limit, self._epoch_us)
        mode = (b"c" if op.spend else b"C") + field_of(op.beside) if op.beside else MODES[op.enforce, op.spend]
        a, b, c, d = numbers
        packed = NUMBERS.pack(a, b, c, _cost(op) if cost is None else cost)
        if d or op.carry is not None:
            packed += LAST.pack(d)
        if op.carry is not None:
            packed += self._carry(op.carry, op.limit)
        return [field_of(bucket_name(op.rule, op.limit.algorithm)), letter, mode, packed]

    def _carry(self, carry: Carry, limit: AnyLimit) -> bytes:
        """How buckets of another limit are converted to this one."""
        before, how = carry.before, HOW[carry.how]
        if before is None or before.algorithm != limit.algorithm:
            before, how = limit, HOW[AS_IS]
        return CARRY.pack(carry.generation, carry.until_us - EPOCH_US, *numbers_of(before, self._epoch_us)[1]) + how

    def _fragment(self, op: Op, limit: Limit) -> bytes:
        """The arguments of a single token bucket."""
        name = (op.rule, op.cost)
        found = self._fragments.get(name)
        if found is not None and found[0] is limit:
            return found[1]
        if len(self._fragments) >= MAX_FRAGMENTS:
            self._fragments.clear()
        numbers = NUMBERS.pack(limit.token_ticks, limit.ticks_per_us, limit.full_ticks, _cost(op))
        fragment = _bulks(field_of(op.rule), numbers)
        self._fragments[name] = (limit, fragment)
        return fragment

    def _call(self, keys: Sequence[bytes], *words: bytes) -> bytes:
        count = b"*%d" % (3 + len(keys) + len(words))
        return count + self._evalsha + _bulks(b"%d" % len(keys), *keys, *words) + b"\r\n"


def greeting(word: bytes) -> bytes:
    """A question to which the word is the answer."""
    return _command(b"PING", word)


class _AfterLoss(Commands):
    """Commands for a server that lost its memory."""

    def __init__(self, commands: Commands, lost_us: int) -> None:
        self.__dict__.update(commands.__dict__)
        self._lost = b"%d" % lost_us

    def take(self, ops: Sequence[Op], undo: bytes = b"") -> bytes:
        return self._take_many(ops, undo)

    def reset(self, identity: str, rule: str | None, colocate: str = "") -> bytes:
        fields = () if rule is None else map(field_of, bucket_names(rule))
        return self._call([self.names.key(identity, colocate)], b"reset", *fields)

    def _call(self, keys: Sequence[bytes], *words: bytes) -> bytes:
        return super()._call(keys, b"young", self._lost, *words)


def _plain(ops: Sequence[Op]) -> bool:
    """Whether these are enforced token buckets of one identity."""
    identity, colocate = ops[0].identity, ops[0].colocate
    for op in ops:
        if type(op.limit) is not Limit or not op.enforce or not op.spend or op.carry is not None:
            return False
        if op.identity != identity or op.colocate != colocate:
            return False
    return True


def grouped(ops: Sequence[Op]) -> dict[tuple[str, str], list[int]]:
    """The positions of the operations under each key (identity and label), in order of appearance."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, op in enumerate(ops):
        groups.setdefault((op.identity, op.colocate), []).append(index)
    return groups


def parse_seen(reply: object, ops: Sequence[Op]) -> Sequence[Seen]:
    """What was seen, in the order of `ops`.

    Raises:
        StoreError: the reply is not what the script answers.
    """
    widths = [WIDTHS[type(op.limit)] for op in ops]
    flat = [reply] if type(reply) is int else reply
    if type(flat) is not list or len(flat) != sum(widths) or not all(map(_is_amount, flat)):
        raise StoreError(f"the store answered {reply!r:.100}, which is not what {len(ops)} buckets hold", "refused")
    seen: list[Seen] = [None] * len(ops)
    at = 0
    for index in [index for members in grouped(ops).values() for index in members]:
        width = widths[index]
        seen[index] = flat[at] if width == 1 else tuple(flat[at : at + width])
        at += width
    return seen


def parse_charged(reply: object, op: Op) -> Charged:
    """What was charged.

    Raises:
        StoreError: the reply is not what the script answers.
    """
    if type(reply) is not list or not reply or not _is_amount(reply[0]):
        raise StoreError(f"the store answered {reply!r:.100}, which does not tell of a charge", "refused")
    return Charged(reply[0], parse_seen(reply[1:], (op,))[0])


def parse_lent(reply: object) -> Lent:
    """What was lent.

    Raises:
        StoreError: the reply is not what the script answers.
    """
    if type(reply) is not list or len(reply) != 3 or not all(map(_is_amount, reply)):
        raise StoreError(f"the store answered {reply!r:.100}, which does not tell of a lease", "refused")
    return Lent(*reply)


def parse_alive(reply: object) -> tuple[int, int]:
    """How many gateways are alive, and how many were lately.

    Raises:
        StoreError: the reply is not what the script answers.
    """
    if type(reply) is not list or len(reply) != 2 or not all(map(_is_amount, reply)):
        raise StoreError(f"the store answered {reply!r:.100}, which does not tell of gateways", "refused")
    return reply[0], reply[1]


def parse_slots(reply: object) -> SlotsSeen:
    """What was found when a slot was asked for.

    Raises:
        StoreError: the reply is not what the script answers.
    """
    if type(reply) is not list or len(reply) != 2 or not all(map(_is_amount, reply)):
        raise StoreError(f"the store answered {reply!r:.100}, which does not tell of slots", "refused")
    return SlotsSeen(*reply)


def parse_bool(reply: object) -> bool:
    """Whether there was something to renew, or to let go.

    Raises:
        StoreError: the reply is not what the script answers.
    """
    if type(reply) is not int or reply not in (0, 1):
        raise StoreError(f"the store answered {reply!r:.100}, which is neither yes nor no", "refused")
    return bool(reply)


def _cost(op: Op) -> int:
    """In the unit of the script. One token more than the capacity is as impossible as any larger cost, and exact."""
    cost = min(op.cost, op.limit.capacity + 1)
    return cost * op.limit.token_ticks if type(op.limit) is Limit else cost


def _memory_key(key: bytes, undo: bytes) -> bytes:
    """Where the server remembers what it took: in the slot of a key."""
    return key[:29] + b":" + undo


def _name_here(name: bytes, key: bytes, op: Op) -> bytes:
    """The name of a charge on this bucket: others in the slot may be charged under the same name."""
    field = field_of(bucket_name(op.rule, op.limit.algorithm))
    return blake2b(name + key + field, digest_size=16).digest()


def _is_amount(value: object) -> bool:
    return type(value) is int and value >= 0


def _bulks(*words: bytes) -> bytes:
    """Arguments, each beginning with a line end."""
    return b"".join(b"\r\n$%d\r\n%b" % (len(word), word) for word in words)


def _command(*words: bytes) -> bytes:
    return b"*%d" % len(words) + _bulks(*words) + b"\r\n"
