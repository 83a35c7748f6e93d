"""A candidate from a shell: shown, promoted, and what is told when that cannot be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from limen.apps.cli import app
from tests.apps.outcome import Outcome

RULES = """\
rules:
  - id: search
    match: {path: /v1/search/**}
    limit: 100/minute
    candidate: 50/minute
  - id: upload
    match: {path: /v1/upload}
    limit: 100/minute
    candidate: 2/minute
  - id: plain
    match: {path: /v1/plain}
    limit: 7/minute
"""
Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in a folder with these rules in force."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LIMEN_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LIMEN_RULES_DB", "sqlite:///rules.db")
    (tmp_path / "rules.yaml").write_text(RULES)

    def go(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = app.run(arguments)
        return Outcome(status, *capsys.readouterr())

    assert go("rules", "apply", "rules.yaml").status == 0
    return go


def test_a_candidate_is_shown_and_promoted(run: Run) -> None:
    assert "tries 50/minute" in run("rules", "list").out
    assert "candidate: 50/minute" in run("rules", "show", "search").out
    done = run("rules", "promote", "search", "--reason", "tried for a week")
    assert (done.status, done.out) == (0, "the limit of search is 50/minute now; that is version 2\n")
    assert "promote by local: tried for a week" in run("rules", "history", "search").out
    back = run("rules", "rollback", "search", "1", "--reason", "not yet")
    assert back.status == 0
    assert "tries 50/minute" in run("rules", "list").out


def test_the_guard_holds_a_cut_up_until_it_is_confirmed(run: Run) -> None:
    refused = run("rules", "promote", "upload")
    assert (refused.status, refused.out) == (1, "")
    assert "upload" in refused.err
    assert run("rules", "promote", "upload", "--json").json["preview"]
    done = run("rules", "promote", "upload", "--confirm", "--reason", "the disk is full", "--json")
    assert (done.status, done.json["limit"], done.json["version"]) == (0, "2/minute", 2)


def test_what_cannot_be_promoted_is_told(run: Run) -> None:
    unknown = run("rules", "promote", "nothing")
    assert (unknown.status, "there is no rule 'nothing'" in unknown.err) == (2, True)
    without = run("rules", "promote", "plain")
    assert (without.status, "has no candidate" in without.err) == (2, True)
