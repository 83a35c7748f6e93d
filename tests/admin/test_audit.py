"""The audit log: everything that changes something is in it, and nobody can change it without that being seen."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limen.admin.audit import BEGINNING, AuditEntry, Chain, seal
from limen.admin.records import Signature
from limen.admin.repository import Repository
from limen.admin.service import AdminService

ANN = Signature("ann", "editor", "because", confirmed=True)
LIMIT = {"limit": "10/minute"}


def entries(count: int) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    for seq in range(1, count + 1):
        previous = found[-1].hash if found else BEGINNING
        found.append(seal(AuditEntry(seq, seq * 10, "ann", "editor", "rule.put", f"rule:r{seq}", "{}", previous, "")))
    return found


def followed(rows: list[AuditEntry]) -> tuple[int, str | None]:
    chain = Chain()
    chain.follow(rows)
    return chain.length, chain.broken and f"{chain.broken.seq}: {chain.broken.why}"


def test_a_chain_that_nobody_touched_holds() -> None:
    assert followed(entries(5)) == (5, None)
    assert followed([]) == (0, None)


def test_each_field_of_each_row_is_sealed() -> None:
    rows = entries(3)
    for index, row in enumerate(rows):
        for name in AuditEntry._fields:
            value = getattr(row, name)
            other = value + 1 if isinstance(value, int) else value[:-1] + ("1" if value[-1:] != "1" else "2")
            changed = [*rows[:index], row._replace(**{name: other}), *rows[index + 1 :]]
            length, broken = followed(changed)
            assert length == index, (name, "the rows before are right")
            assert broken is not None, name


def test_a_row_that_is_taken_out_put_in_or_moved_is_found() -> None:
    one, two, three = entries(3)
    assert followed([one, three]) == (1, "3: row 2 is missing")
    assert followed([two, three]) == (0, "2: row 1 is missing")
    forged = seal(two._replace(author="eve"))
    assert followed([one, forged, three]) == (2, "3: it does not follow the row before it")
    again = seal(three._replace(previous=forged.hash))
    assert followed([one, forged, again])[1] is None, "who forges everything after it is found by a noted hash alone"


@pytest.fixture
def service(repository: Repository) -> AdminService:
    return AdminService(repository)


async def test_every_change_is_in_the_log_with_its_author_and_reason(service: AdminService) -> None:
    await service.put_rule("a", {**LIMIT, "match": {"path": "/a"}}, by=ANN)
    await service.apply({"b": LIMIT, "a": {"limit": "5/minute", "match": {"path": "/a"}}}, by=ANN)
    await service.rollback("a", 1, by=ANN)
    await service.delete_rule("a", by=ANN)
    await service.put_client("acme", {"plan": "gold", "api_keys": ["canary-key-0123"]}, by=ANN)
    await service.delete_client("acme", by=ANN)
    await service.start_drill({"what": "store-down", "percent": 10, "seconds": 60}, by=ANN)
    await service.end_drill(by=ANN)
    found = list(reversed(await service.audit()))
    assert [(entry.action, entry.subject) for entry in found] == [
        ("rule.put", "rule:a"), ("rule.apply", "rule:b"), ("rule.apply", "rule:a"), ("rule.rollback", "rule:a"),
        ("rule.delete", "rule:a"), ("client.put", "client:acme"), ("client.delete", "client:acme"),
        ("drill.start", "drill:store-down"), ("drill.end", "drill:store-down"),
    ]  # fmt: skip
    assert {(entry.author, entry.role) for entry in found} == {("ann", "editor")}
    first, changed = json.loads(found[0].detail), json.loads(found[2].detail)
    assert (first["reason"], first["confirmed"], first["version"]) == ("because", True, 1)
    assert changed["differences"][0] | {"factor": 0.5} == {
        "field": "limit", "kind": "lowered", "before": "10/minute", "after": "5/minute", "factor": 0.5
    }  # fmt: skip
    assert "canary" not in str(found)


async def test_a_change_that_fails_is_not_in_the_log(service: AdminService, repository: Repository) -> None:
    await service.put_rule("a", LIMIT)

    async def fail() -> None:
        async with repository.change(by=ANN) as change:
            await change.delete_rule("a")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert len(await service.audit()) == 1


async def test_the_log_is_read_from_its_end_page_by_page(service: AdminService) -> None:
    for number in range(7):
        await service.put_client(f"c{number}", {"plan": None})
    newest = await service.audit(most=3)
    assert [entry.seq for entry in newest] == [7, 6, 5]
    assert [entry.seq for entry in await service.audit(before=5, most=3)] == [4, 3, 2]


async def test_those_who_change_at_once_make_one_chain(url: str) -> None:
    async with await Repository.open(url) as one, await Repository.open(url) as other:
        services = [AdminService(one), AdminService(other)]
        await asyncio.gather(
            *(services[number % 2].put_client(f"c{number}", {"plan": "free"}) for number in range(12)),
            *(services[number % 2].put_rule(f"r{number}", LIMIT) for number in range(6)),
            services[0].start_drill({"what": "store-down", "percent": 10, "seconds": 60}),
        )
        checked = await one.check_audit()
        assert (checked.rows, checked.findings) == (19, ())
        assert checked.head == (await other.audit(most=1))[0].hash


SQL = {
    "UPDATE audit SET author = 'eve' WHERE seq = 2": "audit row 2: it is not as it was written",
    "DELETE FROM audit WHERE seq = 2": "audit row 3: row 2 is missing",
    "UPDATE rules SET document = '{}' WHERE id = 'a'": "rule 'a' was changed by other means than Limen",
    "DELETE FROM rule_versions WHERE rule_id = 'a' AND version = 1": "rule 'a': version 1 in the history is not what",
    "UPDATE rule_versions SET document = '{}' WHERE version = 2": "rule 'a': version 2 in the history is not what",
}


@pytest.mark.parametrize("statement", SQL)
async def test_what_somebody_did_past_limen_is_found(sqlite_url: str, tmp_path: Path, statement: str) -> None:
    async with await Repository.open(sqlite_url) as repository:
        service = AdminService(repository)
        for per_minute in (1, 2, 3):
            await service.put_rule("a", {"limit": f"{per_minute}/minute"})
        assert (await repository.check_audit()).findings == ()
        _past_the_triggers(tmp_path / "rules.db", statement)
        (finding, *_) = (await repository.check_audit()).findings
        assert finding.startswith(SQL[statement])


async def test_rows_cut_off_the_end_are_found_by_a_hash_that_was_noted(sqlite_url: str, tmp_path: Path) -> None:
    async with await Repository.open(sqlite_url) as repository:
        service = AdminService(repository)
        for client in ("a", "b", "c"):
            await service.put_client(client, {"plan": None})
        before = await repository.check_audit()
        noted = before.rows, before.head
        assert (await repository.check_audit(noted)).findings == ()
        _past_the_triggers(tmp_path / "rules.db", "DELETE FROM audit WHERE seq = 3")
        assert (await repository.check_audit()).findings == ()
        assert (await repository.check_audit(noted)).findings == ("audit row 3 is not there",)
        await service.put_client("d", {"plan": None})
        assert (await repository.check_audit(noted)).findings == ("audit row 3 has another hash than was noted",)


def _past_the_triggers(path: Path, statement: str) -> None:
    """As somebody who owns the file can."""
    with sqlite3.connect(path) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute(statement)
    database.close()


async def test_a_long_log_is_followed_to_its_end(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limen.admin.history.PAGE", 4)
    async with repository.change() as change:
        for number in range(11):
            change.record("test.done", f"thing:{number}")
    assert (await repository.check_audit()).rows == 11


async def test_a_difference_that_is_huge_is_told_in_short(service: AdminService) -> None:
    await service.put_rule("a", {**LIMIT, "tags": ["x" * 100_000]})
    (entry,) = await service.audit()
    assert len(entry.detail) < 1000
    assert json.loads(entry.detail)["differences"] == [{"field": "rule", "kind": "added"}]


def _run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    from limen.apps.cli.app import run

    status = run([*arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_verify_on_the_command_line_says_yes_or_no(
    sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    service_of: Callable[[Repository], AdminService] = AdminService

    async def fill() -> None:
        async with await Repository.open(sqlite_url) as repository:
            await service_of(repository).put_rule("a", LIMIT, by=ANN)

    asyncio.run(fill())
    status, checked = _run(["audit", "verify", "--rules-db", sqlite_url], capsys)
    assert (status, checked["rows"], checked["findings"]) == (0, 1, [])
    status, listed = _run(["audit", "list", "--rules-db", sqlite_url], capsys)
    assert (status, listed["entries"][0]["author"]) == (0, "ann")
    noted = f"1:{checked['head']}"
    assert _run(["audit", "verify", "--noted", noted, "--rules-db", sqlite_url], capsys)[0] == 0
    _past_the_triggers(tmp_path / "rules.db", "UPDATE audit SET role = 'approver'")
    status, checked = _run(["audit", "verify", "--rules-db", sqlite_url], capsys)
    assert (status, checked["findings"]) == (1, ["audit row 1: it is not as it was written"])
