"""What an operator has said of single clients: who is blocked, who is not limited at all, whose quota elsewhere is used
up, and whose limit is another one. Pure and immutable; swapped as a whole.

The first line that fits decides:

    1  a block of the client, or of the user           refused
    2  the client, or the user, is allowed             not limited at all
    3  a network that is blocked or allowed: the smallest one that holds the address counts
    4  a flag: the client's quota elsewhere is used up  refused
    5  the client's own limit, else that of its plan   in the place of the rule's

Whatever has an end is not there any more from then on; nobody has to take it away. A question costs the same with one
entry and with a hundred thousand: names are keys, and networks are kept by their length, so at most one look for each
length that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from limen.rules.client_ip import parse_address
from limen.rules.networks import Networks

__all__ = ["Block", "Flag", "Override", "Standing"]

Entry = TypeVar("Entry", "Block", "Flag", "Override")
Now = Callable[[], float]
"""Unix time in seconds."""


class Block(NamedTuple):
    """Somebody is refused, or is not limited at all."""

    by: Literal["client", "user", "ip"]
    name: str
    """Of the client or user; a network such as `192.0.2.0/24`, or an address."""
    kind: Literal["block", "allow"] = "block"
    reason: str = ""
    """For operators; no client sees it."""
    until: float | None = None
    """Unix time in seconds; None: until it is taken away."""
    id: int = 0


class Flag(NamedTuple):
    """The quota of a client is used up, says somebody who counts elsewhere, such as a metering system."""

    client: str
    until: float | None = None
    retry_after: int | None = None
    """Seconds that the client is told to wait; None: until the end of the flag."""


class Override(NamedTuple):
    """A limit of its own."""

    rule: str
    by: Literal["client", "plan"]
    name: str
    limit: str
    """As in a rule: `500/minute`, `unlimited`, `0/minute`."""
    until: float | None = None


class Overrides(NamedTuple):
    """Those of one rule."""

    clients: Mapping[str, Override]
    plans: Mapping[str, Override]


NONE: Mapping[str, Any] = {}


class Standing:
    """Everything that was said.

    Args:
        blocks: who is refused or allowed; a later one of the same name is in the place of the earlier.
        flags: whose quota is used up.
        overrides: limits of single clients and plans.

    Raises:
        UsageError: a block names a network that is none.

    Example:
        >>> standing = Standing(blocks=[Block("ip", "192.0.2.0/24")], flags=[Flag("acme")])
        >>> standing.judge("acme", None, "198.51.100.7", lambda: 0.0)
        Flag(client='acme', until=None, retry_after=None)
    """

    __slots__ = ("_clients", "_counts", "_flags", "_networks", "_own_limits", "_users", "overrides")

    overrides: Mapping[str, Overrides]
    """By rule."""

    def __init__(
        self, blocks: Iterable[Block] = (), flags: Iterable[Flag] = (), overrides: Iterable[Override] = ()
    ) -> None:
        self._clients: Mapping[str, Block] = {}
        self._users: Mapping[str, Block] = {}
        self._networks = Networks[Block]()
        self._flags: Mapping[str, Flag] = {}
        self.overrides = {}
        self._own_limits: frozenset[str] | set[str] = frozenset()
        self._counts: dict[str, int] | None = None
        self._put_blocks(list(blocks))
        self._put_flags(list(flags))
        self._put_overrides(list(overrides))

    def __bool__(self) -> bool:
        return bool(self._clients or self._users or self._networks or self._flags or self.overrides)

    def replaced(
        self,
        blocks: Iterable[Block] = (),
        flags: Iterable[Flag] = (),
        overrides: Iterable[Override] = (),
        now_s: float = 0.0,
    ) -> Standing:
        """The same with these in the place of those of the same names; what has ended by `now_s` is taken out."""
        other = object.__new__(Standing)
        for name in Standing.__slots__:
            setattr(other, name, getattr(self, name))
        other._counts = None
        other._put_blocks(list(blocks), now_s)
        other._put_flags(list(flags), now_s)
        other._put_overrides(list(overrides), now_s)
        return other

    def without_ended(self, now_s: float) -> Standing:
        """The same without what has ended. Looks at everything."""
        blocks, flags, overrides = self.entries()
        return Standing(
            [block for block in blocks if _holds(block, now_s)],
            [flag for flag in flags if _holds(flag, now_s)],
            [override for override in overrides if _holds(override, now_s)],
        )

    def entries(self) -> tuple[list[Block], list[Flag], list[Override]]:
        """Everything, also what has ended."""
        overrides = [each for of in self.overrides.values() for table in of for each in table.values()]
        blocks = [*self._clients.values(), *self._users.values(), *self._networks.values()]
        return blocks, list(self._flags.values()), overrides

    def count(self) -> dict[str, int]:
        """How many there are: `block`, `allow`, `flag`, `override`. Some may have ended."""
        if self._counts is None:
            blocks = [*self._clients.values(), *self._users.values(), *self._networks.values()]
            allowed = sum(each.kind == "allow" for each in blocks)
            overrides = sum(len(table) for of in self.overrides.values() for table in of)
            counts = {"block": len(blocks) - allowed, "allow": allowed, "flag": len(self._flags), "override": overrides}
            self._counts = counts
        return self._counts

    def knows(self, client: str) -> bool:
        """Whether something was said of the client by its name; if not, only its user, address or plan may matter."""
        return client in self._flags or client in self._clients or client in self._own_limits

    def judge(self, client: str | None, user: str | None, ip: str | None, now: Now) -> Block | Flag | None:
        """What decides about them before any rule does; None when rules decide."""
        if self._clients or self._users:
            named = self._named(client, user, now)
            if named is not None:
                return named
        if self._networks and ip:
            address = parse_address(ip)
            found = None if address is None else self._networks.find(address, lambda block: _holds(block, now()))
            if found is not None:
                return found
        flag = self._flags.get(client) if client else None
        return flag if flag is not None and _holds(flag, now()) else None

    def override(self, rule: str, client: str | None, plan: str | None, now: Now) -> Override | None:
        """The limit that these have in the place of the rule's.

        Args:
            client: None where buckets of the rule are not the client's own.
            plan: None where they are not those of somebody who has a plan.
        """
        of = self.overrides.get(rule)
        if of is None:
            return None
        own = of.clients.get(client) if client else None
        if own is not None and _holds(own, now()):
            return own
        common = of.plans.get(plan) if plan else None
        return common if common is not None and _holds(common, now()) else None

    def _named(self, client: str | None, user: str | None, now: Now) -> Block | None:
        by_client = self._clients.get(client) if client else None
        by_user = self._users.get(user) if user else None
        found = [each for each in (by_client, by_user) if each is not None and _holds(each, now())]
        return min(found, key=lambda block: block.kind == "allow", default=None)  # a block wins

    def _put_blocks(self, blocks: list[Block], now_s: float = 0.0) -> None:
        if not blocks:
            return
        self._clients = _merged(self._clients, {each.name: each for each in blocks if each.by == "client"}, now_s)
        self._users = _merged(self._users, {each.name: each for each in blocks if each.by == "user"}, now_s)
        nets = [each for each in blocks if each.by == "ip"]
        if nets:
            changes = [(each.name, each if _holds(each, now_s) else None) for each in nets]
            self._networks = self._networks.replaced(changes)

    def _put_flags(self, flags: list[Flag], now_s: float = 0.0) -> None:
        if flags:
            self._flags = _merged(self._flags, {each.client: each for each in flags}, now_s)

    def _put_overrides(self, overrides: list[Override], now_s: float = 0.0) -> None:
        if not overrides:
            return
        found = dict(self.overrides)
        for rule in dict.fromkeys(each.rule for each in overrides):
            before = found.pop(rule, Overrides(NONE, NONE))
            mine = [each for each in overrides if each.rule == rule]
            after = Overrides(*(
                _merged(table, {each.name: each for each in mine if each.by == by}, now_s)
                for by, table in zip(("client", "plan"), before, strict=True)
            ))  # fmt: skip
            if after.clients or after.plans:
                found[rule] = after
        self.overrides = found
        self._own_limits = {name for of in found.values() for name in of.clients}


def _holds(entry: Block | Flag | Override, now_s: float) -> bool:
    return entry.until is None or entry.until > now_s


def _merged(before: Mapping[str, Entry], new: Mapping[str, Entry], now_s: float) -> Mapping[str, Entry]:
    """A table with the new entries, as far as they have not ended; those of before under the same names are gone."""
    if not new:
        return before
    after = {**before, **new}
    for name, entry in new.items():
        if not _holds(entry, now_s):
            del after[name]
    return after
