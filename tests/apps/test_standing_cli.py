"""Single clients from a shell: what the commands print, and their exit status."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from limen.apps.cli import app
from tests.apps.outcome import Outcome

RULES = "rules:\n  - {id: search, limit: 100/minute}\n  - {id: by-ip, limit: 100/minute, key_by: [ip]}\n"
Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that has two rules."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "rules.yaml").write_text(RULES)
    database = folder / "rules.db"
    assert app.run(["rules", "apply", str(folder / "rules.yaml"), "--rules-db", f"sqlite:///{database}"]) == 0
    return database


@pytest.fixture
def run(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on that database."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(made, "rules.db")
    for name in os.environ:
        if name.startswith("LIMEN_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LIMEN_RULES_DB", "sqlite:///rules.db")

    def go(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = app.run(arguments)
        return Outcome(status, *capsys.readouterr())

    return go


def test_who_is_blocked_is_listed_and_taken_back(run: Run) -> None:
    assert run("block", "acme", "--for", "1h", "--reason", "scraping").out.startswith("client acme is blocked until 2")
    assert run("block", "192.0.2.7").out == "ip 192.0.2.7/32 is blocked\n"
    assert run("allow", "10.0.0.1", "--as", "client").out == "client 10.0.0.1 is not limited\n"
    assert run("block", "ann", "--as", "user", "--json").json["user"] == "ann"
    listed = run("standing").out.splitlines()
    assert listed[0].startswith("block  client acme until 2")
    assert listed[0].endswith(": scraping")
    assert listed[1:] == ["block  ip 192.0.2.7/32", "allow  client 10.0.0.1", "block  user ann"]
    assert run("unblock", "192.0.2.7").out == "ip 192.0.2.7/32: block taken back\n"
    assert [block["kind"] for block in run("unblock", "acme", "--json").json["taken"]] == ["block"]
    again = run("unblock", "acme")
    assert (again.status, again.out) == (1, "nothing was said of acme\n")
    assert len(run("standing", "--json").json["blocks"]) == 2


def test_flags_go_up_and_down(run: Run) -> None:
    assert run("flag", "acme", "over_quota", "--for", "1d").out.startswith("acme is over its quota until 2")
    shown = run("flag", "acme", "--retry-after", "60", "--json").json
    assert (shown["over_quota"], shown["retry_after"], shown["until"]) == (True, 60, None)
    assert run("standing").out == "over quota  client acme\n"
    assert run("flag", "acme", "over_quota", "--off").out == "acme has no flag\n"
    assert run("flag", "acme", "--off", "--json").json == {"client": "acme", "over_quota": False}
    assert run("standing").out == "nothing is said of anybody\n"


def test_limits_of_their_own_come_and_go(run: Run) -> None:
    assert run("override", "search", "--client", "acme", "500/minute", "--for", "7d").out.startswith(
        "client acme has 500/minute under search until 2"
    )
    assert run("override", "search", "unlimited", "--plan", "gold").out == "plan gold has unlimited under search\n"
    assert [each["limit"] for each in run("standing", "--json").json["overrides"]] == ["500/minute", "unlimited"]
    assert run("override", "search", "--client", "acme", "--off").out == "client acme has the limit of search again\n"
    gone = run("override", "search", "--client", "acme", "--off", "--json")
    assert (gone.status, gone.json) == (1, {"rule": "search", "client": "acme", "taken": False})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["block", ""], "1 to 256 printable characters"),
        (["block", "acme", "--for", "soon"], "not a length of time"),
        (["block", "acme", "--as", "ip"], "not a network"),
        (["flag", "acme", "blocked"], "over_quota"),
        (["override", "search", "5/minute"], "name one of --client and --plan"),
        (["override", "search", "5/minute", "--client", "a", "--plan", "b"], "name one of --client and --plan"),
        (["override", "search", "--client", "a"], "limit"),
        (["override", "nope", "5/minute", "--client", "a"], "there is no rule 'nope'"),
        (["override", "by-ip", "5/minute", "--client", "a"], "counts by ip"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(run: Run, arguments: list[str], sentence: str) -> None:
    failed = run(*arguments)
    assert (failed.status, failed.out) == (2, "")
    assert sentence in failed.err
    assert run("standing").out == "nothing is said of anybody\n"


@pytest.mark.parametrize(
    "arguments", [["block", "0.0.0.0/0"], ["allow", "::/0"], ["override", "search", "0/minute", "--plan", "free"]]
)
def test_what_would_hit_many_takes_a_confirmed_reason(run: Run, arguments: list[str]) -> None:
    for unconfirmed in ([], ["--confirm"], ["--reason", "under attack"]):
        refused = run(*arguments, *unconfirmed)
        assert (refused.status, refused.out) == (1, "")
        assert "--confirm --reason" in refused.err
    assert run("standing").out == "nothing is said of anybody\n"
    assert run(*arguments, "--confirm", "--reason", "under attack").status == 0


def test_without_a_database_it_says_so(run: Run) -> None:
    assert run("block", "acme", "--rules-db", "sqlite:////nowhere/rules.db").status == 3


def test_explain_says_what_was_said(run: Run, valkey_url: str) -> None:
    run("override", "search", "--client", "acme", "500/minute", "--for", "7d")
    question = ("explain", "--path", "/", "--client", "acme", "--ip", "192.0.2.7", "--store", valkey_url)
    passed = run(*question)
    assert passed.status == 0
    assert "500 of 500 left before and 499 after for client acme until 2" in passed.out
    run("block", "192.0.2.0/24", "--reason", "scraping")
    refused = run(*question)
    assert refused.status == 1
    assert "would be refused (blocked)" in refused.out
    assert "ip 192.0.2.0/24 is blocked: scraping" in refused.out
    shown = run(*question, "--json").json
    assert (shown["standing"]["what"], shown["standing"]["id"]) == ("block", 1)
    assert run("check", "acme", "search", "--store", valkey_url).out.startswith("allowed, 499 of 500")
    run("flag", "acme")
    assert run("check", "acme", "search", "--store", valkey_url).out == "denied (blocked); the same would pass never\n"


def test_help_for_one_client_is_in_the_audit_log(run: Run, valkey_url: str) -> None:
    run("override", "search", "--client", "acme", "500/minute")
    granted = run("grant", "acme", "search", "25", "--reason", "a good customer", "--store", valkey_url)
    assert granted.out.endswith("525 in all\n")
    assert run("reset", "acme", "--store", valkey_url).status == 0
    rows = [
        (row["action"], row["subject"], row["detail"].get("reason"))
        for row in run("audit", "list", "--json").json["entries"]
    ]
    assert rows[:2] == [("bucket.reset", "client:acme", None), ("bucket.grant", "client:acme", "a good customer")]
