"""Writing what is said of single clients, within a change of the rules database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table, delete, func, insert, select, update

from limen.admin.change import Change
from limen.admin.drivers import upsert
from limen.admin.schema import meta
from limen.admin.schema_standing import blocks, flags, overrides
from limen.admin.standing_fields import BlockOrder, FlagOrder, OverrideOrder
from limen.admin.standing_records import GONE, StoredBlock, StoredFlag, StoredOverride
from limen.admin.standing_table import BLOCKS, FLAGS, called, lives

__all__ = ["COUNTER", "put_block", "put_flags", "put_override", "take_block", "take_flag", "take_override"]

COUNTER = "standing"
"""The column of `meta` that counts changes of these tables."""
KEPT_S = 3600
"""How long a row is there after its end: whoever looks within that time hears of it."""


async def put_block(change: Change, order: BlockOrder) -> tuple[StoredBlock, bool]:
    """Say that somebody is blocked or allowed, in the place of what was said of the same name; whether that is new."""
    await _prune(change)
    same = blocks.c.by == order.by, blocks.c.name == order.name
    there = (await change.run(select(blocks.c.id, blocks.c.until).where(*same))).one_or_none()
    values = {**order._asdict(), **_signature(change)}
    if there is None:
        found = await change.run(insert(blocks).values(values).returning(blocks.c.id))
        values["id"] = int(found.scalar_one())
    else:
        values["id"] = int(there.id)
        await change.run(update(blocks).where(blocks.c.id == there.id).values(values))
    change.record(f"{order.kind}.put", f"{order.by}:{order.name}", {"id": values["id"], **_end_of(order)})
    return StoredBlock(**values), there is None or _ended(there.until, change.now)


async def take_block(change: Change, block_id: int) -> StoredBlock | None:
    """Say so no more; what was said, if it was."""
    wanted = BLOCKS.rows.where(blocks.c.id == block_id, lives(blocks, change.now))
    row = (await change.run(wanted)).one_or_none()
    if row is None:
        return None
    there = StoredBlock(*row)
    await _end(change, blocks, blocks.c.id == block_id)
    change.record(f"{there.kind}.delete", f"{there.by}:{there.name}", {"id": block_id})
    return there


async def put_flags(change: Change, orders: Sequence[FlagOrder]) -> int:
    """Flag clients, or take their flags away; for how many of them that changes something."""
    await _prune(change)
    named = FLAGS.rows.where(flags.c.client.in_([order.client for order in orders]))
    there = {row.client: StoredFlag(*row) for row in await change.run(named)}
    news = [order for order in orders if _is_news(order, there.get(order.client), change.now)]
    rows = [_flag_row(change, order) for order in news]
    if rows:
        new = upsert(change.connection, flags)
        await change.connection.execute(
            new.on_conflict_do_update(
                index_elements=[flags.c.client],
                set_={column.name: column for column in new.excluded if column.name != "client"},
            ),
            rows,
        )
    _record_flags(change, news)
    return len(news)


async def take_flag(change: Change, client: str) -> bool:
    """Take the flag of one client away; False when it has none."""
    return bool(await put_flags(change, [FlagOrder(client, False, None, None, "")]))


async def put_override(
    change: Change, rule: str, by: str, name: str, order: OverrideOrder
) -> tuple[StoredOverride, bool]:
    """Give a client, or a plan, a limit of its own; whether it had none."""
    await _prune(change)
    there = (await change.run(select(overrides.c.until).where(*called(rule, by, name)))).one_or_none()
    values: dict[str, Any] = {**order._asdict(), **_signature(change)}
    if there is None:
        await change.run(insert(overrides).values(rule=rule, by=by, name=name, **values))
    else:
        await change.run(update(overrides).where(*called(rule, by, name)).values(values))
    change.record("override.put", f"rule:{rule}", {by: name, "limit": order.limit, **_end_of(order)})
    return StoredOverride(rule=rule, by=by, name=name, **values), there is None or _ended(there.until, change.now)


async def take_override(change: Change, rule: str, by: str, name: str) -> bool:
    """Let the rule's own limit hold again; False when it does."""
    which = called(rule, by, name)
    if (await change.run(select(overrides.c.rule).where(*which, lives(overrides, change.now)))).first() is None:
        return False
    await _end(change, overrides, *which)
    change.record("override.delete", f"rule:{rule}", {by: name})
    return True


def _ended(until: int | None, now: int) -> bool:
    return until is not None and until <= now


def _signature(change: Change) -> dict[str, Any]:
    return {"author": change.by.author, "updated_at": change.now, "standing": change.revision}


def _end_of(order: BlockOrder | OverrideOrder | FlagOrder) -> dict[str, Any]:
    said = {"until": order.until, "reason": order.reason}
    return {name: value for name, value in said.items() if value}


def _is_news(order: FlagOrder, there: StoredFlag | None, now: int) -> bool:
    if there is None or _ended(there.until, now):
        return order.over_quota
    return not order.over_quota or (order.until, order.retry_after) != (there.until, there.retry_after)


def _flag_row(change: Change, order: FlagOrder) -> dict[str, Any]:
    until = order.until if order.over_quota else GONE
    said = {"client": order.client, "retry_after": order.retry_after, "until": until, "reason": order.reason}
    return {**said, **_signature(change)}


def _record_flags(change: Change, news: Sequence[FlagOrder]) -> None:
    """A row for one flag; one for all that came together, for there may be a thousand a minute."""
    if len(news) > 1:
        up = {order.client: _flag_detail(order) for order in news if order.over_quota}
        gone = [order.client for order in news if not order.over_quota]
        change.record("flags.put", "clients", {"up": up, "gone": gone})
        return
    for order in news:
        change.record("flag.put" if order.over_quota else "flag.delete", f"client:{order.client}", _flag_detail(order))


def _flag_detail(order: FlagOrder) -> dict[str, Any]:
    wait = {} if order.retry_after is None else {"retry_after": order.retry_after}
    return {"flag": "over_quota", **wait, **_end_of(order)}


async def _end(change: Change, table: Table, *which: Any) -> None:
    await change.run(update(table).where(*which).values(until=GONE, **_signature(change)))


async def _prune(change: Change) -> None:
    """Delete rows that ended a while ago, and note that whoever has not seen them go cannot catch up any more."""
    long_ago = change.now - KEPT_S
    for table in (blocks, flags, overrides):
        gone = table.c.until <= long_ago, table.c.updated_at <= long_ago
        newest = (await change.run(select(func.max(table.c.standing)).where(*gone))).scalar_one()
        if newest is not None:
            await change.run(delete(table).where(*gone))
            higher = meta.c.standing_floor < newest
            await change.run(update(meta).where(higher).values(standing_floor=newest))
