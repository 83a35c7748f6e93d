"""Who runs on these rules: heartbeats and drills, over SQLite and PostgreSQL, in virtual time."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from limen.admin import presence
from limen.admin.drills import DrillOrder
from limen.admin.heart import Heart
from limen.admin.presence import Presence
from limen.admin.records import Drill, Gateway, Heard
from limen.admin.repository import Repository
from limen.errors import RulesUnavailable

START_S = 1_700_000_000
Until = Callable[[Callable[[], object]], Awaitable[None]]


class Fleet:
    """Processes that beat as a test wishes, in time that it moves."""

    def __init__(self, url: str) -> None:
        self.now = float(START_S)
        self.repository = Repository(url, now=lambda: self.now)

    @property
    def presence(self) -> Presence:
        return self.repository.presence

    async def beat(self, *names: str, revision: int = 0) -> tuple[int, int]:
        """Each of them beats; what the last one heard: (alive, most)."""
        for name in names:
            heard = await self.presence.beat(gateway(name, revision))
        return heard.alive, heard.most


def gateway(name: str, revision: int = 0) -> Gateway:
    return Gateway(name, "host", 7, "gateway", START_S, revision, "ready", "up", 0.0)


@pytest.fixture
async def fleet(url: str) -> AsyncIterator[Fleet]:
    fleet = Fleet(url)
    yield fleet
    await fleet.repository.close()


async def test_alive_is_who_was_heard_of_within_ten_seconds(fleet: Fleet) -> None:
    assert await fleet.beat("a") == (1, 1)
    assert await fleet.beat("b", "c") == (3, 3)
    fleet.now += 9
    assert await fleet.beat("a") == (3, 3)
    fleet.now += 1
    assert await fleet.beat("a") == (1, 3)


async def test_F25_the_most_rises_at_once_and_falls_after_ten_minutes(fleet: Fleet) -> None:
    names = [f"g{number}" for number in range(20)]
    assert await fleet.beat(*names[:10]) == (10, 10)
    fleet.now += 2
    assert await fleet.beat(*names) == (20, 20)
    killed_at = fleet.now
    while fleet.now < killed_at + 598:
        fleet.now += 4
        assert (await fleet.beat("g0", "g1"))[1] == 20, fleet.now - killed_at
    assert (await fleet.beat("g0"))[0] == 2
    fleet.now = killed_at + 660 + 60
    assert await fleet.beat("g0", "g1") == (2, 2)


async def test_who_says_goodbye_is_gone_and_still_counts_among_the_most(fleet: Fleet) -> None:
    await fleet.beat("a", "b")
    await fleet.presence.leave("b")
    assert await fleet.beat("a") == (1, 2)
    assert [seen.gateway.id for seen in (await fleet.presence.fleet()).gateways] == ["a"]
    await fleet.presence.leave("nobody")


async def test_the_list_says_who_has_which_rules_and_when_it_was_heard_of(fleet: Fleet) -> None:
    async with fleet.repository.change() as change:
        await change.put_rule("a", "{}")
    await fleet.beat("new", revision=1)
    await fleet.beat("old", revision=0)
    fleet.now += 30
    await fleet.beat("new", revision=1)
    found = await fleet.presence.fleet()
    assert (found.revision, found.alive, found.most, found.drill) == (1, 1, 2, None)
    assert {(seen.gateway.id, seen.gateway.revision, seen.seen_s_ago) for seen in found.gateways} == {
        ("new", 1, 0),
        ("old", 0, 30),
    }
    fleet.now += 3571
    await fleet.beat("new")
    assert [seen.gateway.id for seen in (await fleet.presence.fleet()).gateways] == ["new"]


async def test_nothing_piles_up(fleet: Fleet) -> None:
    for number in range(200):
        fleet.now += 61
        await fleet.beat(f"short-lived-{number}")
    async with fleet.repository._database.reading() as connection:
        rows = [
            (await connection.exec_driver_sql(f"SELECT count(*) FROM {table}")).scalar_one()
            for table in ("gateways", "peaks", "drills")
        ]
    assert rows[0] <= 60
    assert rows[1] <= 21
    assert rows[2] == 0


async def test_a_beat_tells_the_revision_of_the_rules(fleet: Fleet) -> None:
    before = await fleet.presence.beat(gateway("a"))
    async with fleet.repository.change() as change:
        await change.put_rule("a", "{}")
    assert ((await fleet.presence.beat(gateway("a"))).revision, before.revision) == (1, 0)


async def test_beating_changes_no_revision(fleet: Fleet) -> None:
    await fleet.beat("a", "b")
    assert await fleet.repository.revision() == 0


async def test_a_hundred_processes_beat_at_once(url: str) -> None:
    fleets = [Fleet(url) for _ in range(10)]
    await asyncio.gather(*[fleet.beat(*[f"{at}-{number}" for number in range(10)]) for at, fleet in enumerate(fleets)])
    assert (await fleets[0].beat("0-0"))[0] == 100
    for fleet in fleets:
        await fleet.repository.close()


async def test_time_is_that_of_the_database(repository: Repository, url: str) -> None:
    async with Repository(url) as other:
        before = int(time.time())
        drill = await other.presence.start_drill(DrillOrder(10, 60, ""))
    assert before - 1 <= drill.started <= time.time() + 1


# drills


async def test_a_drill_is_heard_of_by_everybody_until_it_ends(fleet: Fleet) -> None:
    assert (await fleet.presence.beat(gateway("a"))).drill is None
    started = await fleet.presence.start_drill(DrillOrder(12.5, 60, "game day"))
    assert started == Drill("store-down", 12.5, START_S, START_S + 60, "game day")
    fleet.now += 20
    heard = await fleet.presence.beat(gateway("b"))
    assert (heard.drill, heard.drill_s) == (started, 40)
    assert ((await fleet.presence.fleet()).drill, (await fleet.presence.fleet()).drill_s) == (started, 40)
    fleet.now += 40
    assert (await fleet.presence.beat(gateway("a"))).drill is None


async def test_a_drill_takes_the_place_of_the_one_before_and_can_be_ended(fleet: Fleet) -> None:
    await fleet.presence.start_drill(DrillOrder(10, 60, ""))
    second = await fleet.presence.start_drill(DrillOrder(20, 0.5, ""))
    assert second.ends == START_S + 1, "a part of a second counts as one"
    assert (await fleet.presence.beat(gateway("a"))).drill == second
    assert await fleet.presence.end_drill() == second
    assert await fleet.presence.end_drill() is None
    assert (await fleet.presence.beat(gateway("a"))).drill is None


# databases that are older, locked, or away


async def test_F23_a_process_that_is_stopped_in_the_middle_of_a_beat_keeps_nobody_from_anything(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ("_count", "_note_peak", "_drill", "_most")
    for step in steps:
        async with Repository(url) as frozen, Repository(url) as other:
            await frozen.presence.beat(gateway("b"))
            stopped = asyncio.Event()

            async def stop(*_: object, stopped: asyncio.Event = stopped) -> None:
                stopped.set()
                await asyncio.Event().wait()

            with monkeypatch.context() as patch:
                patch.setattr(presence, step, stop)
                beating = asyncio.create_task(frozen.presence.beat(gateway("a")))
                await stopped.wait()
            assert (await other.presence.beat(gateway("b"))).alive == 2
            async with other.change() as change:
                await change.put_rule("a", "{}")
            await other.presence.leave("a")
            beating.cancel()
            await asyncio.wait([beating])
    async with Repository(url) as repository:
        assert await repository.revision() == len(steps)


async def test_F34_a_database_that_somebody_has_locked_keeps_nobody_waiting_and_rules_can_be_read(
    url: str, tmp_path: Path
) -> None:
    async with Repository(url) as repository:
        await repository.presence.beat(gateway("a"))
        async with locked(url, tmp_path):
            beating = asyncio.create_task(repository.presence.beat(gateway("a")))
            await asyncio.sleep(0)
            assert await repository.revision() == 0
            async with asyncio.timeout(20):
                with pytest.raises(RulesUnavailable):
                    await beating
            assert await repository.revision() == 0
        assert (await repository.presence.beat(gateway("a"))).alive == 1


@asynccontextmanager
async def locked(url: str, folder: Path) -> AsyncIterator[None]:
    """While somebody else holds what a heartbeat writes to."""
    if url.startswith("sqlite"):
        holder = sqlite3.connect(folder / "rules.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.close()
    else:
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            await connection.execute("LOCK TABLE gateways IN ACCESS EXCLUSIVE MODE")
            yield
        await connection.close()


async def test_whoever_may_only_read_has_rules_and_no_heartbeat(
    postgres_url: str, postgres_server: Callable[[str], str]
) -> None:
    async with await Repository.open(postgres_url):
        pass
    owner = await asyncpg.connect(postgres_url)
    await owner.execute("DROP ROLE IF EXISTS reader")
    await owner.execute("CREATE ROLE reader LOGIN")
    await owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    async with Repository(postgres_url.replace("//postgres:", "//reader:").replace("//postgres@", "//reader@")) as mine:
        assert await mine.revision() == 0
        with pytest.raises(RulesUnavailable, match="permission denied"):
            await mine.presence.beat(gateway("a"))
        assert await mine.revision() == 0
    await owner.execute("DROP OWNED BY reader")
    await owner.execute("DROP ROLE reader")
    await owner.close()


class Others:
    """A database that answers as a test wishes."""

    def __init__(self) -> None:
        self.beats: list[Gateway] = []
        self.left: list[str] = []
        self.error: Exception | None = None
        self.hangs = False

    async def beat(self, who: Gateway) -> Heard:
        self.beats.append(who)
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        return Heard(3, 4, 1, None, 0)

    async def leave(self, gateway_id: str) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        self.left.append(gateway_id)


async def test_a_heart_beats_again_and_again_and_says_goodbye(until: Until) -> None:
    others, heard, errors = Others(), list[Heard](), list[Exception]()
    async with Heart(others, lambda: gateway("a"), heard.append, errors.append, interval_s=0.01):
        await until(lambda: len(heard) >= 3)
    assert (others.left, errors, heard[0]) == (["a"], [], Heard(3, 4, 1, None, 0))


async def test_a_heart_outlives_whatever_the_database_says(until: Until) -> None:
    others, heard, errors = Others(), list[Heard](), list[Exception]()
    async with Heart(others, lambda: gateway("a"), heard.append, errors.append, interval_s=0.01):
        for error in (RulesUnavailable("away"), ValueError("rubbish")):
            others.error = error
            await until(lambda error=error: error in errors)
        others.error = None
        await until(lambda: heard)
    assert others.left == ["a"]


async def test_a_database_that_hangs_does_not_keep_a_process_from_its_end(until: Until) -> None:
    others = Others()
    others.hangs = True
    heart = Heart(others, lambda: gateway("a"), lambda heard: None, lambda error: None)
    heart.start()
    await until(lambda: others.beats)
    async with asyncio.timeout(5):
        await heart.stop()


async def test_nobody_says_goodbye_who_never_was_there() -> None:
    others = Others()
    await Heart(others, lambda: gateway("a"), lambda heard: None, lambda error: None).stop()
    assert others.left == []


async def test_how_many_have_older_rules_than_the_database_is_heard(fleet: Fleet) -> None:
    async with fleet.repository.change() as change:
        await change.put_rule("a", "{}")
    presence = fleet.repository.presence
    assert (await presence.beat(gateway("a")._replace(revision=1))).behind == 0
    assert (await presence.beat(gateway("b")._replace(revision=0))).behind == 1
    assert (await presence.beat(gateway("c")._replace(revision=0))).behind == 2
    assert (await presence.beat(gateway("b")._replace(revision=1))).behind == 1
    await presence.leave("c")
    assert (await presence.beat(gateway("a")._replace(revision=1))).behind == 0
