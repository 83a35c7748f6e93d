"""Every version of every rule is kept, with who, when and why, and there is a way back to each. On both databases."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import delete, insert, text, update
from sqlalchemy.exc import DBAPIError

from limen.admin.precondition import Precondition
from limen.admin.records import DELETED, Signature
from limen.admin.repository import Repository
from limen.admin.schema_history import audit, rule_versions
from limen.admin.service import AdminService
from limen.errors import Conflict, RuleError, RulesUnavailable, UsageError

ANN = Signature("ann", "editor", "the partner asked for it")
BOB = Signature("bob", "approver")


def limit(text_of_limit: str) -> dict[str, Any]:
    return {"match": {"path": "/v1/**"}, "limit": text_of_limit}


@pytest.fixture
def service(repository: Repository) -> AdminService:
    return AdminService(repository)


async def told(service: AdminService, rule_id: str) -> list[tuple[int, str, str, str]]:
    return [(each.version, each.action, each.author, each.reason) for each in await service.versions(rule_id)]


async def test_who_changed_a_rule_when_and_why_is_kept_with_each_version(service: AdminService) -> None:
    await service.put_rule("a", limit("10/minute"), by=ANN)
    await service.put_rule("a", limit("20/minute"), by=BOB)
    await service.delete_rule("a", by=ANN)
    assert await told(service, "a") == [
        (1, "put", "ann", "the partner asked for it"),
        (2, "put", "bob", ""),
        (3, "delete", "ann", "the partner asked for it"),
    ]
    first, second, third = await service.versions("a")
    assert (first.role, second.role, first.at, first.revision) == ("editor", "approver", 1_700_000_000, 1)
    assert json.loads(second.document)["limit"] == "20/minute"
    assert third.document == DELETED
    assert await service.versions("never-there") == ()


async def test_a_rollback_is_a_new_version_and_brings_a_deleted_rule_back(service: AdminService) -> None:
    await service.put_rule("a", limit("10/minute"))
    await service.put_rule("a", limit("20/minute"))
    put = await service.rollback("a", 1, by=ANN)
    assert put is not None
    assert (put.rule.version, put.created, json.loads(put.rule.document)["limit"]) == (3, False, "10/minute")
    await service.delete_rule("a")
    back = await service.rollback("a", 2, by=BOB)
    assert back is not None
    assert (back.rule.version, back.created) == (5, True)
    assert [each.action for each in await service.versions("a")] == ["put", "put", "rollback", "delete", "rollback"]
    assert await service.rollback("a", 9) is None
    assert await service.rollback("b", 1) is None
    with pytest.raises(UsageError, match="was deleted in version 4"):
        await service.rollback("a", 4)


async def test_a_rollback_expects_what_its_author_saw(service: AdminService) -> None:
    await service.put_rule("a", limit("10/minute"))
    await service.put_rule("a", limit("20/minute"))
    with pytest.raises(Conflict) as caught:
        await service.rollback("a", 1, Precondition(any_of={1}))
    assert caught.value.current == 2
    assert await service.rollback("a", 1, Precondition(any_of={2})) is not None


async def test_what_is_not_valid_any_more_cannot_come_back_and_says_so(
    service: AdminService, repository: Repository
) -> None:
    async with repository.change() as change:
        await change.put_rule("a", json.dumps({"id": "a", "limit": "10/fortnight"}))
    await service.put_rule("a", limit("20/minute"))
    with pytest.raises(RuleError, match=r"version 1 is not valid any more.*fortnight"):
        await service.rollback("a", 1)
    assert (await service.rules())[1][0].version == 2


async def test_a_dry_run_leaves_no_version_and_no_word_behind(service: AdminService, repository: Repository) -> None:
    await service.put_rule("a", limit("10/minute"))
    assert (await service.put_rule("a", limit("20/minute"), dry_run=True)).rule.version == 2
    put = await service.rollback("a", 1, dry_run=True)
    assert put is not None
    assert put.rule.version == 2
    assert await service.delete_rule("a", dry_run=True)
    assert len(await service.versions("a")) == 1
    assert len(await service.audit()) == 1
    assert await repository.revision() == 1


async def test_a_conflict_says_what_others_did_since_its_author_looked(service: AdminService) -> None:
    await service.put_rule("a", limit("10/minute"))
    await service.put_rule("a", {**limit("5/minute"), "mode": "shadow"}, by=BOB)
    with pytest.raises(Conflict) as caught:
        await service.put_rule("a", limit("30/minute"), Precondition(any_of={1}))
    assert caught.value.current == 2
    assert caught.value.members["seen"] == 1
    assert [(each["field"], each["kind"]) for each in caught.value.members["diff"]] == [
        ("limit", "lowered"), ("mode", "added")
    ]  # fmt: skip
    with pytest.raises(Conflict) as caught:
        await service.put_rule("a", {**limit("30/minute"), "version": 1})
    assert caught.value.members["seen"] == 1, "a version in the body says the same as If-Match"
    await service.delete_rule("a")
    with pytest.raises(Conflict) as caught:
        await service.delete_rule("a", Precondition(any_of={2}))
    assert [each["kind"] for each in caught.value.members["diff"]] == ["removed"]


async def test_of_two_that_edit_at_once_one_is_told(service: AdminService) -> None:
    await service.put_rule("a", limit("10/minute"))
    seen = Precondition(any_of={1})
    await service.put_rule("a", limit("11/minute"), seen, by=ANN)
    with pytest.raises(Conflict):
        await service.put_rule("a", limit("12/minute"), seen, by=BOB)
    assert [each.author for each in await service.versions("a")] == ["local", "ann"]


async def test_nothing_done_is_no_revision_and_no_row(service: AdminService, repository: Repository) -> None:
    await service.apply({"a": limit("10/minute")})
    before = await repository.revision()
    assert (await service.apply({"a": {"id": "a", **limit("10/minute")}})).done == {}
    assert not await service.delete_rule("never-there")
    assert await repository.revision() == before
    assert len(await service.audit()) == 1


async def test_a_rule_that_somebody_wrote_by_hand_comes_into_the_history_when_it_is_changed(
    service: AdminService, repository: Repository
) -> None:
    await service.put_rule("a", limit("10/minute"))
    by_hand = json.dumps({"id": "a", **limit("7/minute")})
    async with repository._database.writing() as connection:
        await connection.execute(text("UPDATE rules SET version = 5, document = :document"), {"document": by_hand})
    await service.put_rule("a", limit("20/minute"), by=ANN)
    assert [(each.version, each.action, each.author) for each in await service.versions("a")] == [
        (1, "put", "local"), (5, "unknown", "unknown"), (6, "put", "ann")
    ]  # fmt: skip
    back = await service.rollback("a", 5)
    assert back is not None
    assert json.loads(back.rule.document)["limit"] == "7/minute"


async def test_a_version_number_that_somebody_set_back_is_never_given_out_twice(
    service: AdminService, repository: Repository
) -> None:
    for per_minute in (1, 2, 3):
        await service.put_rule("a", limit(f"{per_minute}/minute"))
    async with repository._database.writing() as connection:
        await connection.execute(text("UPDATE rules SET version = 1"))
    assert (await service.put_rule("a", limit("4/minute"))).rule.version == 4


@pytest.mark.parametrize("table", ["audit", "rule_versions"])
async def test_nobody_rewrites_the_past(service: AdminService, repository: Repository, table: str) -> None:
    await service.put_rule("a", limit("10/minute"))
    past = {"audit": audit, "rule_versions": rule_versions}[table]
    async with repository.reading() as connection:
        there = (await connection.execute(past.select())).mappings().one()
    attempts = [update(past).values(author="somebody else"), delete(past), insert(past).values(dict(there))]
    if repository._database._writer.dialect.name == "sqlite":
        attempts.append(text(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}"))
    else:
        attempts.append(text(f"TRUNCATE {table}"))
    for attempt in attempts:
        with pytest.raises(RulesUnavailable) as caught:
            async with repository._database.writing() as connection:
                await connection.execute(attempt)
        assert isinstance(caught.value.__cause__, DBAPIError)
    async with repository.reading() as connection:
        assert (await connection.execute(past.select())).mappings().one() == there


async def test_what_an_author_writes_cannot_break_the_database_or_a_terminal(
    service: AdminService, repository: Repository
) -> None:
    await service.put_rule("a", limit("10/minute"), by=Signature("a\x00b" * 500, "editor", "half \ud800 \x1b[2J"))
    (version,) = await service.versions("a")
    assert len(version.author) == 256
    assert version.author.isprintable()
    assert version.reason == "half \ufffd \ufffd[2J"
    assert (await repository.check_audit()).findings == ()
