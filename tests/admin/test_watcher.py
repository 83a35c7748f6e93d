import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from limen.admin.api_keys import Secrets
from limen.admin.directory import Directory
from limen.admin.last_good import LastGood
from limen.admin.records import Snapshot
from limen.admin.repository import Repository
from limen.admin.stored_rules import text_of
from limen.admin.watcher import Disk, RulesDatabase, Watcher
from limen.errors import LimenError, RuleError, RulesUnavailable
from limen.rules.ruleset import RuleSet

Until = Callable[[Callable[[], object]], Awaitable[None]]


MATCH = {"path": "/v1/**"}


class Process:
    """What a watcher keeps up to date."""

    def __init__(self, repository: RulesDatabase, interval_s: float = 0.01, disk: Disk | None = None) -> None:
        self.now = 1_700_000_000.5
        self.looks = 0
        self.rulesets: list[RuleSet] = []
        self.directory = Directory()
        self.errors: list[Exception] = []
        self.watcher = Watcher(
            repository,
            self.rulesets.append,
            self.use_clients,
            on_error=self.errors.append,
            interval_s=interval_s,
            now=lambda: self.now,
            on_look=self.look,
            disk=disk,
        )

    def look(self) -> None:
        self.looks += 1

    def use_clients(self, directory: Directory) -> None:
        self.directory = directory

    @property
    def limits(self) -> dict[str, int]:
        rules = self.rulesets[-1].rules if self.rulesets else ()
        return {rule.id: rule.limit.capacity for rule in rules if rule.limit}


@pytest.fixture
async def process(repository: Repository) -> AsyncIterator[Process]:
    process = Process(repository)
    yield process
    await process.watcher.stop()


async def put(repository: Repository, rule_id: str, per_minute: int = 10) -> None:
    async with repository.change() as change:
        await change.put_rule(rule_id, text_of({"id": rule_id, "match": MATCH, "limit": f"{per_minute}/minute"}))


async def test_the_first_load_brings_what_is_there(repository: Repository, process: Process) -> None:
    await put(repository, "a")
    async with repository.change() as change:
        await change.put_client("acme", "gold", ["a-key-of-acme"])
    process.watcher.start()
    await process.watcher.first_load(10)
    assert process.limits == {"a": 10}
    assert process.directory.find("a-key-of-acme") == ("acme", "gold", None)
    assert process.watcher.revision == process.rulesets[-1].revision == 2
    assert process.watcher.last_reload == 1_700_000_000.5
    assert process.watcher.last_error is None


async def test_an_empty_database_is_loaded_too(process: Process) -> None:
    process.watcher.start()
    await process.watcher.first_load(10)
    assert (process.limits, len(process.rulesets), process.watcher.revision) == ({}, 1, 0)


async def test_changes_arrive_and_nothing_is_loaded_twice(
    repository: Repository, process: Process, until: Until
) -> None:
    process.watcher.start()
    await put(repository, "a", 10)
    await until(lambda: process.limits == {"a": 10})
    await put(repository, "a", 20)
    await until(lambda: process.limits == {"a": 20})
    async with repository.change() as change:
        await change.delete_rule("a")
    await until(lambda: process.limits == {})
    revisions = [ruleset.revision for ruleset in process.rulesets]
    assert revisions == sorted(set(revisions))


async def test_revoked_keys_and_deleted_clients_arrive(repository: Repository, process: Process, until: Until) -> None:
    async with repository.change() as change:
        await change.put_client("acme", "gold", ["first-key", "second-key"])
    process.watcher.start()
    await until(lambda: process.directory.find("first-key"))
    async with repository.change() as change:
        await change.put_client("acme", "gold", ["second-key"])
    await until(lambda: process.directory.find("first-key") is None)
    assert process.directory.find("second-key")
    async with repository.change() as change:
        await change.delete_client("acme")
    await until(lambda: process.directory.find("second-key") is None)


async def test_a_poke_does_not_wait_for_the_interval(repository: Repository, until: Until) -> None:
    process = Process(repository, interval_s=3600)
    async with process.watcher:
        await process.watcher.first_load(10)
        await put(repository, "a")
        process.watcher.poke()
        await until(lambda: process.limits == {"a": 10})


async def test_RU_17_every_process_arrives_at_the_same_revision(repository: Repository, until: Until) -> None:
    processes = [Process(repository) for _ in range(4)]
    for process in processes:
        process.watcher.start()
    await put(repository, "a", 10)
    await put(repository, "a", 1)
    await until(lambda: all(process.limits == {"a": 1} and process.watcher.revision == 2 for process in processes))
    for process in processes:
        await process.watcher.stop()


class FailingOnce:
    """A repository whose first snapshot after `fail` is lost on the way."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.revision = repository.revision
        self.secrets = repository.secrets
        self.fail = False

    async def snapshot(self) -> Snapshot:
        if self.fail:
            self.fail = False
            raise RulesUnavailable("lost on the way")
        return await self.repository.snapshot()


async def test_RU_14_a_load_that_failed_is_tried_again_at_the_next_look(repository: Repository, until: Until) -> None:
    await put(repository, "a", 10)
    failing = FailingOnce(repository)
    seen: list[int] = []
    process = Process(repository)
    process.watcher = Watcher(
        failing, process.rulesets.append, process.use_clients, interval_s=3600,
        on_error=lambda error: seen.append(process.watcher.revision),
    )  # fmt: skip
    async with process.watcher:
        await process.watcher.first_load(10)
        await put(repository, "a", 20)
        failing.fail = True
        process.watcher.poke()
        await until(lambda: seen)
        assert seen == [1]
        assert isinstance(process.watcher.last_error, RulesUnavailable)
        process.watcher.poke()
        await until(lambda: process.watcher.revision == 2)
        assert process.limits == {"a": 20}
        assert process.watcher.last_error is None


POISON = [
    "", " ", "null", "[]", "7", "NaN", "{", '{"id": "bad"}', '{"id": "bad", "limit": null}',
    '{"id": "bad", "limit": "minus one"}', '{"id": "bad", "capacity": -1, "refill_per_sec": 1}',
    '{"id": "bad", "capacity": NaN, "refill_per_sec": 1}', '{"id": "bad", "capacity": 1e999, "refill_per_sec": 1}',
    '{"id": "other", "limit": "1/minute"}', '{"limit": "1/minute"}', '{"id": "bad", "limit": "1/minute", "colour": 1}',
    '{"id": "bad", "match": {"path": "/v1/**"}, "limit": "10/minute"}',
    '{"id": "bad", "match": {"path": "/' + "{a}*" * 1000 + '"}, "limit": "1/s"}',
    "[" * 100_000, '{"a":' * 100_000, '{"id": "bad", "tags": ["' + "x" * 10_000_000 + '"]}',
]  # fmt: skip


@pytest.mark.parametrize("poison", POISON, ids=[text[:24] for text in POISON])
async def test_F31_a_poisoned_row_keeps_nothing_else_out_and_is_forgotten_once_it_is_gone(
    poison: str, sqlite_repository: Repository, until: Until
) -> None:
    await put(sqlite_repository, "good")
    process = Process(sqlite_repository)
    async with process.watcher:
        await process.watcher.first_load(10)
        async with sqlite_repository.change() as change:
            await change.put_rule("bad", poison)
            await change.put_client("acme", "gold", ["a-key-of-acme"])
        await until(lambda: len(process.errors) >= 2)
        assert process.limits == {"good": 10}
        assert process.watcher.revision == 2
        assert list(process.watcher.problems) == ["bad"]
        assert len(process.rulesets) == 2, "what is broken is looked at again and again, but put in force once"
        await put(sqlite_repository, "other", 5)
        if "/v1/**" not in poison:
            await until(lambda: process.limits == {"good": 10, "other": 5})
        async with sqlite_repository.change() as change:
            await change.delete_rule("other")
        assert process.directory.find("a-key-of-acme"), "clients do not wait for a broken rule"
        error = process.errors[0]
        assert isinstance(error, RuleError)
        assert "bad" in str(error)
        async with sqlite_repository.change() as change:
            await change.delete_rule("bad")
        await until(lambda: process.watcher.revision == 5 and process.watcher.last_error is None)
        assert process.watcher.problems == {}
        assert process.limits == {"good": 10}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rules SET document = x'ff00', id = 'bad'",
        "UPDATE rules SET document = 12",
        "UPDATE rules SET document = CAST(x'7bff' AS TEXT)",
        "UPDATE rules SET id = CAST(x'ff' AS TEXT)",
        "UPDATE rules SET version = 1e300, document = x'00'",
        "UPDATE rules SET version = 'many', document = ''",
        "DROP TABLE rules",
        "DELETE FROM meta",
    ],
)
async def test_a_database_that_somebody_broke_by_hand_never_stops_a_watcher(
    statement: str, sqlite_repository: Repository, tmp_path: Path, until: Until
) -> None:
    await put(sqlite_repository, "good")
    process = Process(sqlite_repository)
    async with process.watcher:
        await process.watcher.first_load(10)
        connection = sqlite3.connect(tmp_path / "rules.db")
        connection.execute("UPDATE meta SET revision = revision + 1")
        connection.execute(statement)
        connection.commit()
        connection.close()
        await until(lambda: len(process.errors) >= 2)
        assert process.limits == {"good": 10}


async def test_a_bad_set_at_the_first_start_is_not_loaded_and_says_why(sqlite_repository: Repository) -> None:
    async with sqlite_repository.change() as change:
        await change.put_rule("bad", "{}")
    process = Process(sqlite_repository)
    async with process.watcher:
        with pytest.raises(RuleError, match="bad"):
            await process.watcher.first_load(0.5)
    assert process.rulesets == []


async def test_F31_whoever_starts_over_a_poisoned_row_takes_what_it_was_before_from_the_history(
    repository: Repository,
) -> None:
    await put(repository, "a", 10)
    await put(repository, "a", 20)
    async with repository.change() as change:
        await change.put_rule("a", "{")
        await change.put_rule("never-good", "[]")
        await change.put_rule("other", text_of({"id": "other", "limit": "7/minute"}))
    fresh = Process(repository)
    await fresh.watcher.load_now()
    assert fresh.limits == {"a": 20, "other": 7}
    assert fresh.rulesets[-1].versions == {"a": 2, "other": 1}
    assert sorted(fresh.watcher.problems) == ["a", "never-good"]
    assert isinstance(fresh.watcher.last_error, RuleError)
    await put(repository, "a", 30)
    async with repository.change() as change:
        await change.delete_rule("never-good")
    await fresh.watcher.load_now()
    assert (fresh.limits, fresh.watcher.problems, fresh.watcher.last_error) == ({"a": 30, "other": 7}, {}, None)


async def test_F31_of_two_rules_that_do_not_go_together_the_new_one_waits(repository: Repository) -> None:
    await put(repository, "b", 10)
    process = Process(repository)
    await process.watcher.load_now()
    async with repository.change() as change:
        await change.put_rule("a", text_of({"id": "a", "match": MATCH, "limit": "10/minute"}))
    await process.watcher.load_now()
    assert process.limits == {"b": 10}
    assert "does what rule" in str(process.watcher.problems["a"][0])
    await put(repository, "b", 20)
    await process.watcher.load_now()
    assert process.limits == {"a": 10, "b": 20}


async def test_a_rule_that_did_not_change_is_not_read_again(repository: Repository) -> None:
    await put(repository, "a", 10)
    async with repository.change() as change:
        await change.put_rule("b", text_of({"id": "b", "limit": "7/minute"}))
    process = Process(repository)
    await process.watcher.load_now()
    await put(repository, "a", 20)
    await process.watcher.load_now()
    before, after = process.rulesets
    assert after.by_id["b"] is before.by_id["b"]
    assert after.by_id["a"] is not before.by_id["a"]


async def test_a_watcher_starts_before_its_database_does(tmp_path: Path, until: Until) -> None:
    async with Repository(f"sqlite:///{tmp_path}/later/rules.db") as repository:
        process = Process(repository)
        async with process.watcher:
            with pytest.raises(RulesUnavailable):
                await process.watcher.first_load(0.2)
            (tmp_path / "later").mkdir()
            await process.watcher.first_load(10)


async def test_a_database_that_goes_away_is_survived(
    postgres_url: str, postgres_server: Callable[[str], str], until: Until
) -> None:
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    admin = await asyncpg.connect(postgres_server("postgres"))
    async with await Repository.open(postgres_url) as repository:
        await put(repository, "a", 10)
        process = Process(repository)
        async with process.watcher:
            await process.watcher.first_load(10)
            await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            await admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
            await until(lambda: len(process.errors) >= 3)
            assert all(isinstance(error, RulesUnavailable) for error in process.errors)
            assert process.limits == {"a": 10}
            await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            await put(repository, "a", 20)
            await until(lambda: process.limits == {"a": 20})
    await admin.close()


async def test_stopping_ends_it_whatever_it_is_doing(repository: Repository) -> None:
    process = Process(repository)
    for _ in range(20):
        process.watcher.start()
        await asyncio.sleep(0)
        await process.watcher.stop()
    await process.watcher.stop()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "Watcher"]
    assert await repository.revision() == 0


async def test_a_use_that_fails_is_reported_and_tried_again(repository: Repository, until: Until) -> None:
    used: list[RuleSet] = []

    def use(ruleset: RuleSet) -> None:
        used.append(ruleset)
        if len(used) == 1:
            raise LimenError("not now")

    errors: list[Exception] = []
    async with Watcher(repository, use, lambda clients: None, on_error=errors.append, interval_s=0.01) as watcher:
        await watcher.first_load(10)
    assert [str(error) for error in errors] == ["not now"]
    assert len(used) == 2


class Slow:
    """The database of a process whose first snapshot takes its time to arrive."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.read = asyncio.Event()
        self.arrive = asyncio.Event()

    async def revision(self) -> int:
        return await self._repository.revision()

    async def secrets(self) -> Secrets:
        return await self._repository.secrets()

    async def snapshot(self) -> Snapshot:
        snapshot = await self._repository.snapshot()
        if not self.read.is_set():
            self.read.set()
            await self.arrive.wait()
        return snapshot


async def test_an_older_state_that_arrives_late_never_replaces_a_newer_one(repository: Repository) -> None:
    await put(repository, "a", 10)
    database = Slow(repository)
    process = Process(database)
    old = asyncio.create_task(process.watcher.load_now())
    await database.read.wait()
    await put(repository, "a", 20)
    new = asyncio.create_task(process.watcher.load_now())
    await asyncio.wait([new], timeout=0.3)  # time to overtake, for a watcher that would let it
    database.arrive.set()
    await asyncio.gather(old, new)
    assert process.limits == {"a": 20}
    assert process.watcher.revision == await repository.revision()


class Away:
    """A repository that can be away."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.away = False
        self.secrets_with = repository.secrets_with

    def _there(self) -> Repository:
        if self.away:
            raise RulesUnavailable("the database is away")
        return self._repository

    async def revision(self) -> int:
        return await self._there().revision()

    async def secrets(self) -> Secrets:
        return await self._there().secrets()

    async def kept_secret(self) -> str | None:
        return await self._there().kept_secret()

    async def snapshot(self) -> Snapshot:
        return await self._there().snapshot()


async def test_F30_what_was_loaded_is_saved_and_a_start_without_the_database_goes_on_with_it(
    repository: Repository, tmp_path: Path, until: Until
) -> None:
    await put(repository, "a", 10)
    async with repository.change() as change:
        await change.put_client("acme", "gold", ["a-key-of-acme"])
    url = "postgresql://somewhere/limen"
    first = Process(repository, disk=LastGood(tmp_path, url))
    await first.watcher.load_now()

    database = Away(repository)
    database.away = True
    process = Process(database, disk=LastGood(tmp_path, url))
    await process.watcher.recall()
    assert process.limits == {"a": 10}
    assert process.directory.find("a-key-of-acme") == ("acme", "gold", None)
    assert process.watcher.secrets == await repository.secrets()
    assert (process.watcher.revision, process.watcher.from_disk, process.watcher.stale) == (2, True, True)

    await put(repository, "a", 20)
    async with process.watcher:
        await until(lambda: process.errors)
        assert process.limits == {"a": 10}
        database.away = False
        await until(lambda: process.limits == {"a": 20} and not process.watcher.stale)
    assert (process.watcher.revision, process.watcher.from_disk) == (3, False)
    assert LastGood(tmp_path, url).load().snapshot == await repository.snapshot()


async def test_rules_that_are_broken_are_not_saved_but_a_key_that_was_taken_away_is(
    repository: Repository, tmp_path: Path
) -> None:
    await put(repository, "a", 10)
    async with repository.change() as change:
        await change.put_client("acme", "gold", ["a-key-of-acme"])
    disk = LastGood(tmp_path, "postgresql://somewhere/limen")
    process = Process(repository, disk=disk)
    await process.watcher.load_now()
    async with repository.change() as change:
        await change.put_rule("bad", "{")
        await change.put_client("acme", "gold", [])
    await process.watcher.load_now()
    assert list(process.watcher.problems) == ["bad"]
    saved = disk.load().snapshot
    assert ([rule.id for rule in saved.rules], saved.revision) == (["a"], 3)
    assert saved.clients[0].digests == ()


async def test_a_disk_that_takes_nothing_keeps_no_rule_out_and_is_told_once(
    repository: Repository, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    process = Process(repository, disk=LastGood(tmp_path / "file", "postgresql://somewhere/limen"))
    for limit in (10, 20, 30):
        await put(repository, "a", limit)
        await process.watcher.load_now()
        assert process.limits == {"a": limit}
    assert ["cannot be written" in record.getMessage() for record in caplog.records] == [True]
    assert process.errors == []


async def test_a_secret_that_is_set_is_not_saved_and_must_be_set_again(repository: Repository, tmp_path: Path) -> None:
    url = "postgresql://somewhere/limen"
    named = Repository("sqlite:///" + str(tmp_path / "named.db"), b"a secret of our own")
    async with named:
        await Process(named, disk=LastGood(tmp_path, url)).watcher.load_now()
        assert b"a secret of our own".hex() not in LastGood(tmp_path, url).path.read_text()
        assert LastGood(tmp_path, url).load().kept_secret is None
        again = Process(named, disk=LastGood(tmp_path, url))
        await again.watcher.recall()
        assert again.watcher.secrets == (b"a secret of our own", None)
        with pytest.raises(RulesUnavailable, match="LIMEN_SECRET"):
            await Process(repository, disk=LastGood(tmp_path, url)).watcher.recall()


async def test_rules_are_stale_when_looks_fail_for_three_intervals_and_five_seconds(repository: Repository) -> None:
    database = Away(repository)
    process = Process(database, interval_s=10)
    watcher = process.watcher
    assert watcher.stale, "nobody has looked yet"
    await watcher.once()
    database.away = True
    process.now += 35
    await watcher.once()
    assert (watcher.stale, watcher.last_look) == (False, process.now - 35)
    process.now += 1
    assert watcher.stale
    database.away = False
    await watcher.once()
    assert (watcher.stale, watcher.last_look, process.looks) == (False, process.now, 3)
