"""One body over SQLite and PostgreSQL."""

import asyncio
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from limen.admin.precondition import ANYTHING, Precondition
from limen.admin.records import StoredRule
from limen.admin.repository import Repository
from limen.errors import Conflict, RulesUnavailable, SettingsError

KEYS = ["first-key-of-acme", "second-key-of-acme"]


async def put(repository: Repository, rule_id: str, document: str = "{}", condition: Precondition = ANYTHING) -> int:
    async with repository.change() as change:
        return (await change.put_rule(rule_id, document, condition)).version


async def test_a_new_database_is_empty_and_at_revision_0(repository: Repository) -> None:
    assert await repository.snapshot() == (0, (), ())
    assert await repository.revision() == 0


async def test_rules_keep_their_text_and_count_their_versions(repository: Repository) -> None:
    assert await put(repository, "b", '{"ü": "\\u0000"}') == 1
    assert await put(repository, "a") == 1
    assert await put(repository, "b", '{"two": 2}') == 2
    snapshot = await repository.snapshot()
    assert snapshot.rules == (
        StoredRule("a", "{}", 1, 2, 1_700_000_000),
        StoredRule("b", '{"two": 2}', 2, 3, 1_700_000_000),
    )
    assert await repository.rule("b") == snapshot.rules[1]
    assert await repository.rule("c") is None


async def test_every_change_moves_the_revision_on_by_one(repository: Repository) -> None:
    revisions = [await repository.revision()]
    for step in range(3):
        async with repository.change() as change:
            await change.put_rule(f"r{step}", "{}")
            await change.put_client(f"c{step}", None)
        revisions.append(await repository.revision())
        assert revisions[-1] == change.revision
    assert revisions == [0, 1, 2, 3]


async def test_a_change_that_fails_leaves_nothing_behind(repository: Repository) -> None:
    await put(repository, "a")

    async def fail() -> None:
        async with repository.change() as change:
            await change.delete_rule("a")
            await change.put_rule("b", "{}")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert [rule.id for rule in (await repository.snapshot()).rules] == ["a"]
    assert await repository.revision() == 1


async def test_a_dry_run_sees_its_own_effect_and_leaves_nothing_behind(repository: Repository) -> None:
    async with repository.change(dry_run=True) as change:
        await change.put_rule("a", "{}")
        assert [rule.id for rule in await change.rules()] == ["a"]
    assert await repository.snapshot() == (0, (), ())


async def test_a_change_on_an_outdated_version_is_a_conflict(repository: Repository) -> None:
    await put(repository, "a")
    await put(repository, "a", condition=Precondition(any_of={1}))
    with pytest.raises(Conflict) as caught:
        await put(repository, "a", condition=Precondition(any_of={1}))
    assert caught.value.current == 2
    with pytest.raises(Conflict):
        async with repository.change() as change:
            await change.delete_rule("a", Precondition(any_of={1}))
    with pytest.raises(Conflict):
        await put(repository, "a", condition=Precondition(none_of="*"))
    with pytest.raises(Conflict):
        await put(repository, "new", condition=Precondition(any_of="*"))


async def test_a_deleted_rule_is_gone_and_its_versions_are_never_given_out_again(repository: Repository) -> None:
    await put(repository, "a")
    async with repository.change() as change:
        assert await change.delete_rule("a")
    async with repository.change() as change:
        assert not await change.delete_rule("a")
    assert await repository.rule("a") is None
    assert (await repository.snapshot()).rules == ()
    await put(repository, "a", condition=Precondition(none_of="*"))
    with pytest.raises(Conflict):
        await put(repository, "a", condition=Precondition(any_of={1}))


async def test_clients_keep_their_keys_until_they_are_given_others(repository: Repository) -> None:
    async with repository.change() as change:
        first = await change.put_client("acme", "free", KEYS)
    async with repository.change() as change:
        second = await change.put_client("acme", "gold")
    assert (second.plan, second.digests) == ("gold", first.digests)
    assert len(first.digests) == 2
    async with repository.change() as change:
        third = await change.put_client("acme", "gold", KEYS[:1] * 2)
    assert len(third.digests) == 1
    assert (await repository.snapshot()).clients == (third,)
    assert await repository.client("acme") == third
    async with repository.change() as change:
        assert (await change.put_client("acme", None, [])).digests == ()


async def test_a_key_belongs_to_one_client(repository: Repository) -> None:
    async with repository.change() as change:
        await change.put_client("acme", "free", KEYS)
    with pytest.raises(Conflict, match="belongs to client 'acme'") as caught:
        async with repository.change() as change:
            await change.put_client("other", "free", ["a-key-of-its-own", KEYS[0]])
    assert KEYS[0] not in str(caught.value)
    assert await repository.client("other") is None
    async with repository.change() as change:
        assert await change.delete_client("acme")
    async with repository.change() as change:
        assert not await change.delete_client("acme")
        await change.put_client("other", "free", KEYS)
    assert [client.client for client in (await repository.snapshot()).clients] == ["other"]


async def test_changes_at_the_same_time_take_turns(url: str) -> None:
    async with await Repository.open(url) as one, await Repository.open(url) as other:

        async def add(repository: Repository) -> None:
            async with repository.change() as change:
                count = len(await change.rules())
                await change.put_rule(f"rule-{count}", "{}")

        await asyncio.gather(*(add(repository) for repository in [one, other] * 10))
        assert await one.revision() == 20
        assert len((await one.snapshot()).rules) == 20


async def test_a_snapshot_is_of_one_moment(url: str) -> None:
    async with await Repository.open(url) as writer, await Repository.open(url) as reader:

        async def write() -> None:
            for step in range(30):
                async with writer.change() as change:
                    await change.put_rule("a", str(step))
                    await change.put_client("c", str(step))

        writing = asyncio.create_task(write())
        seen = 0
        while not writing.done():
            snapshot = await reader.snapshot()
            if snapshot.revision:
                assert snapshot.rules[0].revision == snapshot.clients[0].revision == snapshot.revision
                assert snapshot.rules[0].document == snapshot.clients[0].plan
                seen += 1
        await writing
        assert seen


async def test_reading_goes_on_while_somebody_writes(url: str) -> None:
    async with await Repository.open(url) as writer, await Repository.open(url) as reader, writer.change() as change:
        await change.put_rule("a", "{}")
        assert await reader.snapshot() == (0, (), ())


OPEN = """
import asyncio, sys
from limen.admin.repository import Repository

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    async with await Repository.open(sys.argv[1]) as repository:
        async with repository.change() as change:
            await change.put_rule(f"rule-{sys.argv[2]}", "{}")
        print((await repository.secrets()).current.hex())

asyncio.run(main())
"""


async def test_processes_that_start_together_make_one_database(url: str) -> None:
    outputs = await asyncio.to_thread(_open_in_processes, url, 4)
    assert len(set(outputs)) == 1
    async with await Repository.open(url) as repository:
        assert len((await repository.snapshot()).rules) == 4


def _open_in_processes(url: str, count: int) -> list[str]:
    """Lets them all go when all are ready; returns what each printed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", OPEN, url, str(index)], **pipes) for index in range(count)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    return outputs


async def test_many_openings_at_once_in_one_process_all_succeed(url: str) -> None:
    repositories = await asyncio.gather(*(Repository.open(url) for _ in range(8)))
    assert len({await repository.secrets() for repository in repositories}) == 1
    for repository in repositories:
        await repository.close()


async def test_no_api_key_is_in_the_files_of_the_database(sqlite_url: str, tmp_path: Path) -> None:
    async with await Repository.open(sqlite_url) as repository:
        async with repository.change() as change:
            await change.put_client("acme", "free", ["canary-key-0123456789"])
        written = await asyncio.to_thread(lambda: b"".join(path.read_bytes() for path in tmp_path.iterdir()))
    assert b"acme" in written
    assert b"canary" not in written


async def test_tables_of_another_version_are_left_alone(sqlite_repository: Repository, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "rules.db")
    connection.execute("UPDATE meta SET schema_version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(RulesUnavailable, match="version 99"):
        await Repository.open(f"sqlite:///{tmp_path}/rules.db")


async def test_a_database_that_is_not_there_yet_is_used_once_it_is(tmp_path: Path) -> None:
    async with Repository(f"sqlite:///{tmp_path}/later/rules.db") as repository:
        with pytest.raises(RulesUnavailable, match="unable to open"):
            await repository.revision()
        (tmp_path / "later").mkdir()
        assert await repository.revision() == 0


async def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "rules.db").write_bytes(b"certainly not a database" * 100)
    with pytest.raises(RulesUnavailable, match="not a database"):
        await Repository.open(f"sqlite:///{tmp_path}/rules.db")


@pytest.mark.parametrize("answers", ["refuses", "says nothing"])
async def test_a_server_that_does_not_answer_is_unavailable_and_its_password_is_not_told(answers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if answers == "refuses":
            listener.close()
        with pytest.raises(RulesUnavailable) as caught:
            await Repository.open(f"postgresql://limen:hunter2@127.0.0.1:{port}/rules")
    assert "hunter2" not in str(caught.value)
    assert f"127.0.0.1:{port}/rules" in str(caught.value)


async def test_lost_connections_are_made_again(postgres_url: str) -> None:
    async with await Repository.open(postgres_url) as repository:
        await put(repository, "a")
        admin = await asyncpg.connect(postgres_url)
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'limen'")
        await admin.close()
        assert await put(repository, "a") == 2
        assert await repository.revision() == 2


async def test_a_change_does_not_wait_for_another_for_ever(url: str) -> None:
    async with await Repository.open(url) as one, await Repository.open(url) as other:
        async with one.change():
            with pytest.raises(RulesUnavailable):
                await put(other, "a")
        assert await put(other, "a") == 1


async def test_a_cancelled_change_leaves_nothing_behind(repository: Repository) -> None:
    inside = asyncio.Event()

    async def hang() -> None:
        async with repository.change() as change:
            await change.put_rule("a", "{}")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hang())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await put(repository, "b") == 1
    assert [rule.id for rule in (await repository.snapshot()).rules] == ["b"]


@pytest.mark.parametrize(
    "url", ["mysql://localhost/x", "sqlite://", "sqlite:///:memory:", "sqlite:///x.db?mode=ro", "rules.db", ""]
)
def test_what_is_not_a_rules_database_is_refused_with_advice(url: str) -> None:
    with pytest.raises(SettingsError, match="sqlite:///"):
        Repository(url)


async def test_an_address_that_cannot_be_read_is_a_wrong_setting() -> None:
    async with Repository("postgresql://localhost:notaport/x") as repository:
        with pytest.raises(SettingsError, match="cannot be read"):
            await repository.revision()
