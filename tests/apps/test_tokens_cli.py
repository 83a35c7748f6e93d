"""`limen tokens`: made, listed, revoked from a shell."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from limen.admin.repository import Repository
from limen.admin.tokens import digest_of, token_id
from limen.apps.cli import app
from tests.apps.outcome import Outcome

Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `limen tokens …` on a database of its own."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LIMEN_"):
            monkeypatch.delenv(name)
    database = f"sqlite:///{tmp_path}/rules.db"

    def go(*arguments: str, rules_db: str = database) -> Outcome:
        capsys.readouterr()
        status = app.run(["tokens", *arguments, "--rules-db", rules_db])
        return Outcome(status, *capsys.readouterr())

    return go


def test_a_token_is_printed_alone_once_and_then_only_described(run: Run, tmp_path: Path) -> None:
    made = run("create", "ci", "--role", "editor", "--for", "30d", "--reason", "pipeline")
    text = made.out.strip()
    assert (made.status, made.err, made.out) == (0, "", text + "\n")
    identity = token_id(text)
    listed = run("list")
    assert listed.out.startswith(f"{identity}  ci  editor  valid  until ")
    assert listed.out.endswith("never used  by local\n")
    assert text[13:] not in listed.out + run("list", "--json").out

    async def entries() -> list[tuple[str, str]]:
        async with Repository(f"sqlite:///{tmp_path}/rules.db") as repository:
            return [(entry.action, entry.detail) for entry in await repository.audit()]

    (entry,) = asyncio.run(entries())
    assert entry[0] == "token.create"
    assert json.loads(entry[1])["reason"] == "pipeline"


def test_json_has_all_of_it(run: Run) -> None:
    assert json.loads(run("list", "--json").out) == {"tokens": []}
    assert run("list").out == "there are no tokens\n"
    made = json.loads(run("create", "ann", "--role", "approver", "--json").out)
    assert made["expires"] - made["created"] == 90 * 86_400
    (listed,) = json.loads(run("list", "--json").out)["tokens"]
    assert listed == {name: value for name, value in made.items() if name != "token"}
    assert digest_of(made["token"]) not in str(listed)


def test_a_token_is_revoked_by_its_id_or_by_itself(run: Run) -> None:
    first, second = (run("create", name, "--role", "viewer").out.strip() for name in ("ann", "bob"))
    identity = token_id(first)
    assert identity is not None
    revoked = run("revoke", identity, "--reason", "left")
    assert (revoked.status, revoked.out) == (0, f"the token {identity} of ann is revoked\n")
    assert json.loads(run("revoke", second, "--json").out) == {"revoked": True}
    assert run("list").out.count("  revoked  ") == 2
    missing = run("revoke", first[:-1] + "!")
    assert (missing.status, missing.out) == (1, "there is no such token\n")


MISTAKES = [
    (("create", "ci"), "--role"),
    (("create", "--role", "editor"), "NAME"),
    (("create", "ci", "--role", "king"), "'king' is not a role; there are viewer, editor, approver"),
    (("create", "local", "--role", "editor"), "name the person or the program"),
    (("create", "ci", "--role", "editor", "--for", "2 years"), "not a length of time"),
    (("create", "ci", "--role", "editor", "--for", "1000d"), "366 days"),
]


def test_a_mistake_is_a_sentence_and_makes_nothing(run: Run) -> None:
    for arguments, sentence in MISTAKES:
        refused = run(*arguments)
        assert (refused.status, refused.out) == (2, "")
        assert sentence in refused.err
    assert run("list").out == "there are no tokens\n"


def test_without_the_database_the_status_is_3(run: Run, tmp_path: Path) -> None:
    away = f"sqlite:///{tmp_path}/never/rules.db"
    for arguments in (("list",), ("create", "ci", "--role", "editor"), ("revoke", "abcdefgh")):
        assert run(*arguments, rules_db=away).status == 3
