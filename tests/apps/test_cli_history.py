"""History, the way back, and rules that cannot be read, on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from limen.admin.repository import Repository
from limen.admin.service import AdminService
from limen.apps.cli.app import run

DANGEROUS = {"limit": "0/minute"}


@pytest.fixture
def rules_db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with one rule in two versions."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/rules.db"

    async def fill() -> None:
        async with await Repository.open(url) as repository:
            service = AdminService(repository)
            for limit in ("10/minute", "20/minute"):
                await service.put_rule("search", {"limit": limit})

    asyncio.run(fill())
    return url


def limen(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_rule_goes_back_and_the_history_says_so(rules_db: str, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--rules-db", rules_db)
    status, said, _ = limen(capsys, "rules", "rollback", "search", "1", "--reason", "too much", *where)
    assert (status, said) == (0, "rule search is what it was at version 1; that is version 3 now\n")
    status, said, _ = limen(capsys, "rules", "history", "search", "--most", "1", *where)
    first, second = said.splitlines()
    assert (status, second) == (0, "   limit: 20/minute -> 10/minute (lowered to 0.5 of it)")
    assert first.endswith("rollback by local: too much")
    status, said, _ = limen(capsys, "rules", "history", "search", "--json", *where)
    assert [each["version"] for each in json.loads(said)["versions"]] == [3, 2, 1]
    status, said, _ = limen(capsys, "rules", "rollback", "search", "2", "--reason", "back", "--json", *where)
    assert (status, json.loads(said)["limit"]) == (0, "20/minute")


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("history", "other"), "there never was a rule 'other'"),
        (("rollback", "search", "9"), "there is no version 9"),
        (("rollback", "search", "often"), "often"),
    ],
)
def test_what_there_never_was_is_bad_input(
    rules_db: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], advice: str
) -> None:
    status, said, error = limen(capsys, "rules", *arguments, "--rules-db", rules_db)
    assert (status, said) == (2, "")
    assert advice in error


def test_going_back_to_what_is_dangerous_takes_a_reason(rules_db: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def close_and_open() -> Any:
        async with Repository(rules_db) as repository:
            service = AdminService(repository)
            await service.put_rule("search", DANGEROUS)
            await service.put_rule("search", {"limit": "30/minute"})

    asyncio.run(close_and_open())
    status, _, error = limen(capsys, "rules", "rollback", "search", "3", "--rules-db", rules_db)
    assert status == 1
    assert "--reason" in error
    status, said, _ = limen(capsys, "rules", "rollback", "search", "3", "--reason", "attack", "--rules-db", rules_db)
    assert (status, "version 5 now" in said) == (0, True)


def test_one_rule_that_cannot_be_read_hides_no_other(rules_db: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def poison() -> None:
        async with Repository(rules_db) as repository, repository.change() as change:
            await change.put_rule("bad", "{")

    asyncio.run(poison())
    status, said, _ = limen(capsys, "rules", "list", "--rules-db", rules_db)
    bad, search = said.splitlines()
    assert (status, bad.startswith("bad  the stored document is not a rule")) == (0, True)
    assert search.startswith("search  20/minute")
    status, said, _ = limen(capsys, "rules", "list", "--json", "--rules-db", rules_db)
    assert [("problems" in each) for each in json.loads(said)["rules"]] == [True, False]
    assert limen(capsys, "rules", "rollback", "search", "1", "--reason", "x", "--rules-db", rules_db)[0] == 0
