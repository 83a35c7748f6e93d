"""What lies in the rules database about single clients, and what of it can be used. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import NamedTuple, TypeVar

from limen.errors import UsageError
from limen.rules.networks import Networks
from limen.rules.standing import Block, Flag, Override, Standing

__all__ = ["GONE", "Mark", "StoredBlock", "StoredFlag", "StoredOverride", "StoredStanding", "merged"]

GONE = 0
"""The end of what was taken away."""
Entry = TypeVar("Entry")


class StoredBlock(NamedTuple):
    id: int
    kind: str
    by: str
    name: str
    until: int | None
    reason: str
    author: str
    updated_at: int
    standing: int


class StoredFlag(NamedTuple):
    client: str
    retry_after: int | None
    until: int | None
    reason: str
    author: str
    updated_at: int
    standing: int


class StoredOverride(NamedTuple):
    rule: str
    by: str
    name: str
    limit: str
    until: int | None
    reason: str
    author: str
    updated_at: int
    standing: int


class Mark(NamedTuple):
    """How far the database has come."""

    standing: int
    """The number of changes."""
    floor: int
    """Who has seen fewer than this asks for everything."""


class StoredStanding(NamedTuple):
    """Some rows, or all, perhaps of those that somebody wrote by other means."""

    blocks: tuple[StoredBlock, ...] = ()
    flags: tuple[StoredFlag, ...] = ()
    overrides: tuple[StoredOverride, ...] = ()


def merged(before: Standing, rows: StoredStanding, now_s: float) -> tuple[Standing, list[str]]:
    """The standing with these rows in the place of those of before; and what is wrong with rows that say nothing."""
    problems: list[str] = []
    blocks = _readable(map(_block, rows.blocks), problems)
    flags = _readable(map(_flag, rows.flags), problems)
    overrides = _readable(map(_override, rows.overrides), problems)
    return before.replaced(blocks, flags, overrides, now_s), problems


def _readable(found: Iterable[Entry | str], problems: list[str]) -> list[Entry]:
    kept: list[Entry] = []
    for each in found:
        if isinstance(each, str):
            problems.append(each)
        else:
            kept.append(each)
    return kept


def _block(row: StoredBlock) -> Block | str:
    if row.kind not in ("block", "allow") or row.by not in ("client", "user", "ip") or not _is_name(row.name):
        return f"block {row.id!r} is not one that Limen wrote"
    if row.by == "ip":
        try:
            Networks.parse(row.name)
        except UsageError as error:
            return f"block {row.id!r}: {error}"
    return Block(row.by, row.name, row.kind, str(row.reason), _time(row.until), row.id)  # type: ignore[arg-type]


def _flag(row: StoredFlag) -> Flag | str:
    if not _is_name(row.client):
        return "a flag has no client"
    wait = row.retry_after if type(row.retry_after) is int and 0 < row.retry_after < 2**31 else None
    return Flag(row.client, _time(row.until), wait)


def _override(row: StoredOverride) -> Override | str:
    if row.by not in ("client", "plan") or not all(map(_is_name, (row.rule, row.name, row.limit))):
        return f"the limit of {row.name!r:.80} under rule {row.rule!r:.80} is not one that Limen wrote"
    return Override(row.rule, row.by, row.name, row.limit, _time(row.until))  # type: ignore[arg-type]


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _time(until: object) -> float | None:
    """An end that cannot be read is long ago: what nobody can read must not refuse anybody for ever."""
    if until is None:
        return None
    return until if isinstance(until, int | float) and isfinite(until) else 0
