"""From the tables of any Limen to those of this one: by one who is asked to, under a lock, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text

import limen.admin
from limen.admin.drivers import WRITING, engine_for
from limen.admin.migrating import FIRST, KNOWN, NEWEST
from limen.admin.repository import Repository
from limen.admin.schema import metadata
from limen.admin.service import AdminService
from limen.errors import RulesUnavailable

FIRST_LIMEN = [
    "CREATE TABLE meta (id INTEGER NOT NULL, schema_version INTEGER NOT NULL, revision BIGINT NOT NULL,"
    " secret VARCHAR(64) NOT NULL, CONSTRAINT pk_meta PRIMARY KEY (id), CONSTRAINT ck_meta_one_row CHECK (id = 1))",
    "CREATE TABLE rules (id VARCHAR(63) NOT NULL, document TEXT NOT NULL, version INTEGER NOT NULL,"
    " revision BIGINT NOT NULL, deleted BOOLEAN NOT NULL, updated_at BIGINT NOT NULL,"
    " CONSTRAINT pk_rules PRIMARY KEY (id))",
    "CREATE TABLE clients (id VARCHAR(256) NOT NULL, plan VARCHAR(64), revision BIGINT NOT NULL,"
    " updated_at BIGINT NOT NULL, CONSTRAINT pk_clients PRIMARY KEY (id))",
    "CREATE TABLE api_keys (digest VARCHAR(64) NOT NULL, client_id VARCHAR(256) NOT NULL, revision BIGINT NOT NULL,"
    " CONSTRAINT pk_api_keys PRIMARY KEY (digest),"
    " CONSTRAINT fk_api_keys_client_id_clients FOREIGN KEY(client_id) REFERENCES clients (id))",
    "CREATE INDEX ix_api_keys_client_id ON api_keys (client_id)",
    f"INSERT INTO meta VALUES (1, 1, 7, '{'ab' * 32}')",
    """INSERT INTO rules VALUES ('old', '{"id": "old", "limit": "5/minute"}', 3, 6, false, 1600000000)""",
    "INSERT INTO rules VALUES ('gone', '', 2, 7, true, 1600000001)",
    "INSERT INTO clients VALUES ('acme', 'gold', 4, 1600000000)",
    "INSERT INTO api_keys VALUES ('0123', 'acme', 4)",
]
"""What the first Limen made, before there were migrations, processes that tell that they run, or drills."""


async def run(url: str, *statements: str) -> None:
    engine = engine_for(url, WRITING, set())  # type: ignore[arg-type]
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement.replace(":", "\\:")))
    await engine.dispose()


async def test_an_older_database_is_refused_with_advice_until_it_is_migrated(url: str) -> None:
    await run(url, *FIRST_LIMEN)
    async with Repository(url, now=lambda: 1_700_000_000) as repository:
        for ask in (repository.snapshot, repository.revision, repository.presence.fleet):
            with pytest.raises(RulesUnavailable, match="limen rules migrate"):
                await ask()
        assert await repository.migrate() == (FIRST, NEWEST)
        snapshot = await repository.snapshot()
        assert (snapshot.revision, [rule.id for rule in snapshot.rules]) == (7, ["old"])
        assert snapshot.clients[0].digests == ("0123",)
        assert (await repository.secrets()).current == bytes.fromhex("ab" * 32)
        assert await repository.migrate() == (NEWEST, NEWEST)


async def test_rules_of_before_have_a_history_that_begins_with_what_they_are(url: str) -> None:
    await run(url, *FIRST_LIMEN)
    async with Repository(url) as repository:
        await repository.migrate()
        service = AdminService(repository)
        assert [(each.version, each.action, each.author) for each in await service.versions("old")] == [
            (3, "put", "unknown")
        ]
        assert [(each.version, each.action) for each in await service.versions("gone")] == [(2, "delete")]
        await service.put_rule("old", {"limit": "50/minute"})
        back = await service.rollback("old", 3)
        assert back is not None
        assert json.loads(back.rule.document)["limit"] == "5/minute"
        assert (await service.put_rule("gone", {"match": {"path": "/x"}, "limit": "1/minute"})).rule.version == 3
        assert (await repository.check_audit()).findings == ()


async def test_an_empty_database_gets_all_tables_and_they_are_those_that_the_code_knows(url: str) -> None:
    async with await Repository.open(url) as repository, repository.reading() as connection:
        assert await connection.run_sync(_differences) == []


async def test_a_migrated_database_has_the_same_tables_as_a_new_one(url: str) -> None:
    await run(url, *FIRST_LIMEN)
    async with Repository(url) as repository:
        await repository.migrate()
        async with repository.reading() as connection:
            assert await connection.run_sync(_differences) == []


def _differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))


def test_every_part_with_tables_has_its_migration_and_they_are_in_one_line() -> None:
    folder = Path(limen.admin.__file__).parent / "migrations" / "versions"
    assert [path.stem for path in sorted(folder.glob("[0-9]*.py"))] == list(KNOWN)
    for before, name in zip([None, *KNOWN], KNOWN, strict=False):
        source = (folder / f"{name}.py").read_text()
        assert f'revision = "{name}"' in source
        assert f"down_revision = {json.dumps(before)}".replace("null", "None") in source


async def test_those_who_migrate_at_once_do_it_once(url: str) -> None:
    await run(url, *FIRST_LIMEN)
    repositories = [Repository(url) for _ in range(4)]
    found = await asyncio.gather(*(repository.migrate() for repository in repositories))
    assert {after for _, after in found} == {NEWEST}
    assert sum(before == FIRST for before, _ in found) >= 1
    assert len(await repositories[0].versions("old")) == 1
    for repository in repositories:
        await repository.close()


async def test_a_migration_that_fails_changes_nothing(url: str) -> None:
    await run(url, *FIRST_LIMEN, "CREATE TABLE audit (seq INTEGER)")
    async with Repository(url) as repository:
        with pytest.raises(RulesUnavailable, match="audit"):
            await repository.migrate()
        with pytest.raises(RulesUnavailable, match="limen rules migrate"):
            await repository.revision()
        await run(url, "DROP TABLE audit")
        assert await repository.migrate() == (FIRST, NEWEST)


async def test_tables_that_a_newer_limen_added_to_do_no_harm(url: str) -> None:
    async with await Repository.open(url) as repository:
        await AdminService(repository).put_rule("a", {"limit": "1/minute"})
    await run(url, "UPDATE alembic_version SET version_num = '9999_later'", "ALTER TABLE rules ADD COLUMN later TEXT")
    async with await Repository.open(url) as repository:
        assert [rule.id for rule in await repository.rules()] == ["a"]
        assert (await AdminService(repository).put_rule("a", {"limit": "2/minute"})).rule.version == 2
        assert await repository.migrate() == ("9999_later", "9999_later")


def test_the_command_migrates_and_says_what_it_did(
    sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from limen.apps.cli.app import run as limen_command

    monkeypatch.chdir(tmp_path)
    asyncio.run(run(sqlite_url, *FIRST_LIMEN))
    assert limen_command(["rules", "list", "--rules-db", sqlite_url]) == 3
    assert "limen rules migrate" in capsys.readouterr().err
    assert limen_command(["rules", "migrate", "--rules-db", sqlite_url]) == 0
    assert capsys.readouterr().out == f"from {FIRST} to {NEWEST}\n"
    assert limen_command(["rules", "list", "--rules-db", sqlite_url]) == 0
    assert capsys.readouterr().out.startswith("old  5/minute")
