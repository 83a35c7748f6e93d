"""Work of seconds beside requests: threads take short turns, no garbage is looked for, old sets go bit by bit."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from weakref import ref

import pytest

from limen import Request, Rule, RuleSet
from limen.admin.background import TURN_S, in_background, let_go, made_many, without_stops
from limen.admin.last_good import LastGood
from limen.admin.repository import Repository
from limen.admin.stored_rules import text_of
from limen.admin.watcher import MANY_RULES, Watcher
from tests.admin.test_poison import Shell

Until = Callable[[Callable[[], object]], Awaitable[None]]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Whatever happens, everything is as it was in the end."""
    before = sys.getswitchinterval(), gc.isenabled()
    yield
    assert (sys.getswitchinterval(), gc.isenabled()) == before
    gc.unfreeze()


def now() -> tuple[float, bool]:
    return sys.getswitchinterval(), gc.isenabled()


async def test_while_it_works_turns_are_short_and_the_collector_rests() -> None:
    usual = now()
    during = await in_background(now)
    assert during == (pytest.approx(TURN_S), False)
    assert now() == usual


async def test_the_last_one_puts_everything_back() -> None:
    usual = now()
    with without_stops():
        assert await in_background(now) == (pytest.approx(TURN_S), False)
        assert now() == (pytest.approx(TURN_S), False)
        with pytest.raises(ZeroDivisionError):
            await in_background(lambda: 1 // 0)
        assert now() == (pytest.approx(TURN_S), False)
    assert now() == usual


async def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        await in_background(now)
        assert not gc.isenabled()
    finally:
        gc.enable()


async def test_much_is_taken_out_of_the_collectors_sight_and_little_is_not() -> None:
    frozen = gc.get_freeze_count()
    await in_background(list, range(10))
    assert gc.get_freeze_count() == frozen
    with without_stops():
        made_many()
    assert gc.get_freeze_count() > frozen


async def test_what_is_let_go_of_goes_in_small_parts(until: Until) -> None:
    class Thing:
        pass

    things = [Thing() for _ in range(200)]
    alive = [ref(thing) for thing in things]
    let_go(things)
    left = []
    while any(each() for each in alive):
        left.append(sum(each() is not None for each in alive))
        await asyncio.sleep(0)
    assert len(set(left)) > 3, "they went all at once"


def rules(count: int, limit: str = "5/minute") -> list[Rule]:
    return [Rule(f"r{number}", match={"path": f"/a/{number}/*"}, limit=limit) for number in range(count)]


async def written(shell: Shell, rules: list[Rule]) -> None:
    """As they are in a database that somebody filled long ago."""
    await shell.run("BEGIN")
    for rule in rules:
        values = (rule.id, text_of(rule.to_document()))
        columns = "(id, document, version, revision, deleted, updated_at)"
        assert await shell.run(f"INSERT INTO rules {columns} VALUES (?, ?, 1, 1, 0, 1)", *values)
    await shell.run("UPDATE meta SET revision = revision + 1")
    await shell.run("COMMIT")


def test_a_set_is_made_of_its_pieces_and_of_nothing_that_is_garbage_in_circles() -> None:
    gc.collect()
    ruleset = RuleSet(rules(50))
    pieces, alive = ruleset.pieces(), ref(ruleset)
    rule = id(ruleset.rules[7])
    del ruleset
    assert alive() is None, "something else holds the set"
    assert any(id(piece) == rule for piece in pieces)
    pieces.clear()
    assert gc.collect() == 0


async def test_a_large_set_follows_and_unchanged_rules_are_the_same_objects(
    sqlite_repository: Repository, sqlite_url: str, tmp_path: Path
) -> None:
    sets: list[RuleSet] = []
    disk = LastGood(tmp_path / "state", sqlite_url)
    watcher = Watcher(sqlite_repository, sets.append, lambda _: None, on_error=_fail, disk=disk)
    usual = now()
    async with Shell(sqlite_url) as shell:
        await written(shell, rules(MANY_RULES + 1))
        await watcher.load()
        assert await shell.write("r7", text_of(rules(8, "9/minute")[7].to_document()), 2)
    await watcher.load()
    first, second = sets
    changed = [name for name in first.by_id if first.by_id[name] is not second.by_id[name]]
    assert (len(second.rules), changed) == (MANY_RULES + 1, ["r7"])
    (found,), _ = second.matching(Request(path="/a/7/x"))
    assert found.limit == rules(8, "9/minute")[7].limit
    assert len(disk.load().snapshot.rules) == MANY_RULES + 1
    assert now() == usual


async def test_requests_get_their_turn_while_a_large_set_is_read(
    sqlite_repository: Repository, sqlite_url: str
) -> None:
    """In parts: nothing that is done for many rules at once is done in one step on the event loop."""
    async with Shell(sqlite_url) as shell:
        await written(shell, rules(1000))
    turns, loop_thread = 0, threading.get_ident()
    used: list[RuleSet] = []

    async def ask() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def use(ruleset: RuleSet) -> None:
        assert threading.get_ident() == loop_thread
        used.append(ruleset)

    watcher = Watcher(sqlite_repository, use, lambda _: None, on_error=_fail)
    asking = asyncio.create_task(ask())
    await watcher.load()
    asking.cancel()
    assert used
    assert turns > 20


def _fail(error: Exception) -> None:
    raise error
