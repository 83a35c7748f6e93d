"""The guard at the command line: `limen rules diff`, `apply`, `proposals`, `approve`, `reject`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from limen.admin.records import Signature
from limen.admin.repository import Repository
from limen.admin.service import AdminService
from limen.apps.cli import app
from tests.apps.outcome import Outcome

Run = Callable[..., Outcome]
NOW = """
rules:
  - id: search
    match: {path: /search}
    key_by: [ip]
    limit: 100/minute
  - id: old
    match: {path: /old}
    limit: 5/minute
"""
CUT = NOW.replace("100/minute", "2/minute")
WHY = ("--reason", "the upstream is down")
LINE = '198.51.100.7 - - [17/May/2015:10:05:{:02} +0000] "GET {} HTTP/1.1" 200 5 "-" "-"\n'


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in a folder with a database that has rules, and `cut.yaml`, which would cut one of them."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LIMEN_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LIMEN_RULES_DB", "sqlite:///rules.db")

    def go(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = app.run(arguments)
        return Outcome(status, *capsys.readouterr())

    (tmp_path / "now.yaml").write_text(NOW)
    (tmp_path / "cut.yaml").write_text(CUT)
    assert go("rules", "apply", "now.yaml").status == 0
    return go


def limits(run: Run) -> dict[str, str]:
    return {rule["id"]: rule["limit"] for rule in run("rules", "list", "--json").json["rules"]}


def test_diff_is_0_when_nothing_differs_and_1_when_something_does(run: Run) -> None:
    assert run("rules", "diff", "now.yaml") == (0, "no difference\n", "")
    assert run("rules", "diff", "now.yaml", "--json").json == {"differs": False}
    found = run("rules", "diff", "cut.yaml")
    assert found.status == 1
    assert found.out.splitlines() == [
        "search",
        "  limit: 100/minute -> 2/minute (lowered to 0.02 of it)",
        "look: rule 'search': the limit shrinks by a factor of 50",
        "effect: there is no traffic to judge by",
        "guard: rule 'search': the limit shrinks by a factor of 50",
        "guard: refused; send it again with ?confirm=1&reason=WHY (on the command line --confirm --reason WHY);"
        " it is recorded",
    ]
    assert limits(run)["search"] == "100/minute"


def test_diff_tells_what_pruning_would_delete(run: Run, tmp_path: Path) -> None:
    (tmp_path / "less.yaml").write_text(NOW.partition("  - id: old")[0])
    assert run("rules", "diff", "less.yaml").status == 0
    found = run("rules", "diff", "less.yaml", "--prune", "--json")
    assert found.status == 1
    assert found.json["diff"]["old"][0]["kind"] == "removed"
    assert found.json["verdict"] == "allowed"


def test_diff_says_what_an_access_log_would_have_met(run: Run, tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text("".join(LINE.format(at, "/search") for at in range(8)) + LINE.format(9, "/x"))
    (tmp_path / "half.yaml").write_text(NOW.replace("100/minute", "50/minute"))
    assert (
        "effect: of 9 requests 0 (0.00 %) would be newly denied"
        in run("rules", "diff", "half.yaml", "--log", "access.log").out
    )
    cut = run("rules", "diff", "cut.yaml", "--log", "access.log", "--guard-cut", "100", "--json").json
    assert (cut["verdict"], cut["effect"]["requests"], cut["effect"]["newly_denied"]) == ("refused", 9, 6)
    assert "66.67 % of the requests, 6 of 9" in cut["why"][0]
    told = run("rules", "diff", "cut.yaml", "--log", "access.log").out
    assert "to 1 of 1 clients that were seen, first at 2015-05-17 10:05:02 UTC" in told
    assert "by rule: search 6" in told


def test_a_dangerous_file_is_refused_with_1_and_goes_in_with_a_confirmed_reason(run: Run) -> None:
    refused = run("rules", "apply", "cut.yaml")
    assert (refused.status, refused.out) == (1, "")
    assert "Nothing was changed: rule 'search': the limit shrinks by a factor of 50" in refused.err
    assert run("rules", "apply", "cut.yaml", "--json").json["preview"]["verdict"] == "refused"
    assert run("rules", "apply", "cut.yaml", "--confirm").status == 1
    assert run("rules", "apply", "cut.yaml", *WHY).status == 1
    assert limits(run)["search"] == "100/minute"
    assert run("rules", "apply", "cut.yaml", "--confirm", *WHY).out == "changed  search\n"
    assert limits(run)["search"] == "2/minute"


def test_the_guard_is_set_as_everything_else_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMEN_GUARD", "approval")
    refused = run("rules", "apply", "cut.yaml", "--confirm", *WHY)
    assert refused.status == 1
    assert "--propose" in refused.err
    assert run("rules", "apply", "cut.yaml", "--guard", "off").status == 0
    assert run("rules", "apply", "now.yaml", "--guard", "maybe").status == 2


def test_a_file_is_proposed_and_approved_by_somebody_else(run: Run) -> None:
    assert run("rules", "apply", "cut.yaml", "--propose").status == 2, "a proposal needs a reason"
    proposed = run("rules", "apply", "cut.yaml", "--propose", *WHY)
    assert proposed.out == "1  open  apply search  of local: the upstream is down\n"
    assert run("rules", "proposals").out == proposed.out
    assert limits(run)["search"] == "100/minute"
    assert "somebody else has to approve it" in run("rules", "approve", "1").err
    assert run("rules", "reject", "1", "--reason", "no").out.startswith("1  rejected by local")

    async def propose_as_ada() -> None:
        from limen.admin.guard import Guard
        from limen.admin.guard_settings import GuardSettings
        from limen.admin.proposing import Proposing

        async with Repository("sqlite:///rules.db") as repository:
            proposing = Proposing(repository, AdminService(repository), Guard(GuardSettings()))
            await proposing.propose({"old": None}, Signature("ada", "editor", "nobody uses it"))

    asyncio.run(propose_as_ada())
    assert run("rules", "approve", "2", "--json").json["state"] == "approved"
    assert limits(run) == {"search": "100/minute"}
    assert run("rules", "approve", "2").status == 2
    assert run("rules", "approve", "9").status == 2
    assert run("rules", "apply", "now.yaml", "--prune", "--propose", *WHY, "--json").json["edits"].keys() == {"old"}


def test_nothing_is_proposed_when_nothing_differs(run: Run) -> None:
    assert run("rules", "apply", "now.yaml", "--propose", *WHY) == (0, "nothing to do\n", "")
    assert run("rules", "proposals") == (0, "nothing was proposed\n", "")
