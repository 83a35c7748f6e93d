"""Saying something of single clients: what is checked, and who is told. Knows nothing of HTTP."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from typing import TYPE_CHECKING, Literal, NamedTuple

from limen.admin.clients import client_name
from limen.admin.guard import needs_confirmation
from limen.admin.records import UNSIGNED, Signature
from limen.admin.standing_changes import (
    COUNTER,
    put_block,
    put_flags,
    put_override,
    take_block,
    take_flag,
    take_override,
)  # fmt: skip
from limen.admin.standing_fields import (
    BlockOrder,
    block_from,
    flag_from,
    flags_from,
    override_from,
    plan_name,
)  # fmt: skip
from limen.admin.standing_records import StoredBlock, StoredFlag, StoredOverride
from limen.admin.stored_rules import rule_of
from limen.errors import Problem, RuleError, UsageError
from limen.rules.client_ip import parse_address
from limen.rules.model import ID, Rule
from limen.rules.networks import Networks
from limen.rules.override import overridden_for

if TYPE_CHECKING:
    from limen.admin.repository import Repository

__all__ = ["By", "PutBlock", "PutOverride", "StandingService"]

By = Literal["client", "plan"]
WIDEST = {4: 8, 6: 16}
"""The shortest prefix that nobody has to confirm, by version of the protocol."""
CUT = 10


class PutBlock(NamedTuple):
    block: StoredBlock
    created: bool


class PutOverride(NamedTuple):
    override: StoredOverride
    created: bool


class StandingService:
    """What an operator can say of single clients.

    Args:
        repository: the rules database.
        changed: is awaited after each change, so that it is in force here when the change is answered.
        now: Unix time in seconds.

    Every method raises `RulesUnavailable` while the database does not answer.
    """

    def __init__(
        self, repository: Repository, changed: Callable[[], Awaitable[None]], now: Callable[[], float] = time.time
    ) -> None:
        self._repository = repository
        self._changed = changed
        self._now = now

    async def put_block(
        self, document: object, by: Signature = UNSIGNED, caller_ip: str | None = None, dry_run: bool = False
    ) -> PutBlock:
        """Block somebody, or let somebody pass unlimited, in the place of what was said of the same name before.

        Args:
            document: `{client | user | ip, kind, reason, for | until}`.
            caller_ip: the address of whoever says so, as far as that is known.

        Raises:
            RuleError: a field is wrong.
            GuardRefused: the network is so wide, or holds the caller, that it takes a confirmed reason.
        """
        order = block_from(document, self._now())
        order = order._replace(reason=order.reason or by.reason[:256])
        _check_width(order, by, caller_ip)
        async with self._repository.change(dry_run, by, COUNTER) as change:
            block, created = await put_block(change, order)
        await self._tell(dry_run)
        return PutBlock(block, created)

    async def blocks(self, after: int = 0, most: int = 1000, name: str | None = None) -> tuple[StoredBlock, ...]:
        """Who is blocked or allowed, from the first id above `after` on."""
        return await self._repository.standing.blocks(int(self._now()), after, most, name)

    async def take_block(self, block_id: int, by: Signature = UNSIGNED) -> StoredBlock | None:
        """Take it back; what it was, if there was one."""
        async with self._repository.change(False, by, COUNTER) as change:
            taken = await take_block(change, block_id)
        await self._tell(taken is None)
        return taken

    async def take_blocks_of(self, name: str, by: Signature = UNSIGNED) -> tuple[StoredBlock, ...]:
        """Take everything back that was said of this client, user, address or network."""
        spelled = {name, _as_network(name)}
        found = [each for one in spelled if one for each in await self.blocks(0, 10, one)]
        taken = [await self.take_block(block.id, by) for block in found]
        return tuple(block for block in taken if block is not None)

    async def put_flag(
        self, client: str, document: object, by: Signature = UNSIGNED, dry_run: bool = False
    ) -> StoredFlag | None:
        """Say that the quota of a client is used up, or is not; the flag that it has now.

        Raises:
            RuleError: a field is wrong.
        """
        name = client_name(client)
        order = flag_from(document, name, self._now())
        async with self._repository.change(dry_run, by, COUNTER) as change:
            changed = await put_flags(change, [order])
        await self._tell(dry_run or not changed)
        if not order.over_quota:
            return None
        if dry_run:
            return StoredFlag(name, order.retry_after, order.until, order.reason, by.author, int(self._now()), 0)
        return await self.flag(client)

    async def put_flags(self, document: object, by: Signature = UNSIGNED, dry_run: bool = False) -> int:
        """The same for up to 1000 clients; for how many of them that changed something.

        Raises:
            RuleError: a field is wrong; then nothing was changed.
        """
        orders = flags_from(document, self._now())
        async with self._repository.change(dry_run, by, COUNTER) as change:
            changed = await put_flags(change, orders)
        await self._tell(dry_run or not changed)
        return changed

    async def flag(self, client: str) -> StoredFlag | None:
        return await self._repository.standing.flag(client_name(client), int(self._now()))

    async def flags(self, after: str = "", most: int = 1000) -> tuple[StoredFlag, ...]:
        """The flags that are up, from the first client behind `after` on."""
        return await self._repository.standing.flags(int(self._now()), after, most)

    async def take_flag(self, client: str, by: Signature = UNSIGNED) -> bool:
        """Take the flag of a client away; False when it has none."""
        name = client_name(client)
        async with self._repository.change(False, by, COUNTER) as change:
            taken = await take_flag(change, name)
        await self._tell(not taken)
        return taken

    async def put_override(
        self, rule: str, by_what: By, name: str, document: object, by: Signature = UNSIGNED, dry_run: bool = False
    ) -> PutOverride | None:
        """Give a client, or everybody on a plan, a limit of its own under a rule; None: there is no such rule.

        Raises:
            RuleError: a field is wrong, or the limit cannot be one under this rule.
            GuardRefused: it would cut the limit of a whole plan so much that it takes a confirmed reason.
        """
        name = _name(by_what, name)
        order = override_from(document, self._now())
        order = order._replace(reason=order.reason or by.reason[:256])
        async with self._repository.change(dry_run, by, COUNTER) as change:
            there = await change.rule(rule) if ID.fullmatch(rule) else None
            if there is None:
                return None
            _check_limit(rule_of(there), by_what, name, order.limit, by)
            override, created = await put_override(change, rule, by_what, name, order)
        await self._tell(dry_run)
        return PutOverride(override, created)

    async def override(self, rule: str, by_what: By, name: str) -> StoredOverride | None:
        return await self._repository.standing.override(rule, by_what, _name(by_what, name), int(self._now()))

    async def overrides(self, skip: int = 0, most: int = 1000, rule: str | None = None) -> tuple[StoredOverride, ...]:
        """Limits of clients and plans, under one rule or all."""
        return await self._repository.standing.overrides(int(self._now()), skip, most, rule)

    async def take_override(self, rule: str, by_what: By, name: str, by: Signature = UNSIGNED) -> bool:
        """Let the rule's own limit hold again; False when it does."""
        async with self._repository.change(False, by, COUNTER) as change:
            taken = await take_override(change, rule, by_what, _name(by_what, name))
        await self._tell(not taken)
        return taken

    async def _tell(self, nothing_changed: bool) -> None:
        if not nothing_changed:
            await self._changed()


def _check_width(order: BlockOrder, by: Signature, caller_ip: str | None) -> None:
    """Ask for a confirmed reason where a slip would stop everybody, or lock out whoever could undo it."""
    if order.by != "ip":
        return
    network = ip_network(order.name)
    if network.prefixlen < WIDEST[network.version]:
        needs_confirmation(f"{order.name} is {network.num_addresses:,} addresses", by)
    caller = parse_address(caller_ip) if caller_ip and order.kind == "block" else None
    if caller is not None and caller in network:
        needs_confirmation(f"{order.name} holds your own address, {caller}", by)


def _check_limit(rule: Rule, by_what: By, name: str, limit: str, by: Signature) -> None:
    """Refuse what cannot be, and ask for a confirmed reason where a slip would stop everybody on a plan."""
    try:
        own = overridden_for(rule, by_what, limit).limit
    except UsageError as error:
        raise RuleError([Problem(str(error), rule.id, "limit")]) from error
    if by_what == "plan" and own is not None and rule.limit is not None and own.capacity * CUT < rule.limit.capacity:
        needs_confirmation(f"{limit} is less than a tenth of what rule {rule.id!r} gives to plan {name!r} now", by)


def _name(by: By, name: str) -> str:
    return client_name(name) if by == "client" else plan_name(name)


def _as_network(name: str) -> str:
    """The name as that of a network; empty when it is none."""
    try:
        return str(Networks.parse(name)) if len(name) <= 100 else ""
    except UsageError:
        return ""
