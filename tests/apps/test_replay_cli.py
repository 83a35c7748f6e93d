"""`limen replay`: from a log and a rule file to a report, and what it says to mistakes."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from limen.admin.repository import Repository
from limen.apps.cli import app
from tests.apps.outcome import Outcome

RULES = "rules:\n  - id: all\n    key_by: [ip]\n    limit: 6/minute\n"
LINE = '192.0.2.7 - - [17/May/2015:10:05:{:02} +0000] "GET /v1/items HTTP/1.1" 200 512 "-" "-"\n'

Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LIMEN_"):
            monkeypatch.delenv(name)
    Path("rules.yaml").write_text(RULES)
    Path("access.log").write_text("".join(map(LINE.format, range(20))))

    def go(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = app.run(["replay", *arguments])
        return Outcome(status, *capsys.readouterr())

    return go


def test_text_json_and_a_page(run: Run) -> None:
    said = run("access.log", "--rules", "rules.yaml", "--html", "report.html")
    assert (said.status, said.err) == (0, "")
    assert "20 requests of 1 client, 2015-05-17T10:05:00Z to 2015-05-17T10:05:19Z (combined)" in said.out
    assert "13 denied (65.0 %), of 1 client" in said.out
    assert "13 would be denied (65.0 %)" in Path("report.html").read_text()
    found = run("access.log", "--rules", "rules.yaml", "--json").json
    assert (found["requests"], found["denied"], found["rules"][0]["rule"]) == (20, 13, "all")


def test_beside_other_rules(run: Run) -> None:
    Path("before.yaml").write_text(RULES.replace("6/minute", "60/minute"))
    found = run("access.log", "--rules", "rules.yaml", "--before", "before.yaml", "--json").json
    assert (found["effect"]["newly_denied"], found["effect"]["newly_denied_ratio"]) == (13, 0.65)


def test_rules_of_a_database(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rules.db'}"

    async def fill() -> None:
        async with Repository(url) as repository, repository.change() as change:
            await change.put_rule("all", '{"id": "all", "key_by": ["ip"], "limit": "10/minute"}')

    asyncio.run(fill())
    assert run("access.log", "--rules", url, "--json").json["denied"] == 20 - 10 - 3


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(io.BytesIO(Path("access.log").read_bytes()))
    monkeypatch.setattr("sys.stdin", piped)
    assert run("-", "--rules", "rules.yaml", "--json").json["requests"] == 20


def test_a_format_by_name_and_keys_by_address(run: Run) -> None:
    rows = (
        {"time": second, "method": "GET", "path": "/", "ip": f"192.0.2.{second}", "client": "acme"}
        for second in range(20)
    )
    Path("access.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    Path("by-client.yaml").write_text(RULES.replace("key_by: [ip]", "key_by: [client]"))
    assert run("access.jsonl", "--rules", "by-client.yaml", "--format", "jsonl", "--json").json["denied"] == 13
    assert run("access.jsonl", "--rules", "by-client.yaml", "--key", "ip", "--json").json["denied"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rules", "rules.yaml"), "name one or several access logs"),
        (("nothing.log", "--rules", "rules.yaml"), "nothing.log: No such file"),
        (("access.log", "--rules", "nothing.yaml"), "nothing.yaml: No such file"),
        (("rules.yaml", "--rules", "rules.yaml"), "rules.yaml: no line of the first 4 is of a format that is known"),
        (("access.log", "--rules", "access.log"), "access.log:1"),
        (("access.log", "--rules", "rules.yaml", "--format", "iis"), "iis"),
    ],
)
def test_mistakes_are_a_sentence(run: Run, arguments: tuple[str, ...], words: str) -> None:
    said = run(*arguments)
    assert said.status == 2
    assert words in said.err
    assert "Traceback" not in said.err


def test_a_database_that_is_away_is_unreachable(run: Run) -> None:
    said = run("access.log", "--rules", "postgresql://jo:hunter2@127.0.0.1:1/limen")
    assert said.status == 3
    assert "hunter2" not in said.err


def test_a_terminal_is_shown_how_far_it_is(run: Run, tmp_path: Path) -> None:
    """Through a pseudo-terminal, as only there is a bar."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from limen.apps.cli import main; main()", "replay", "access.log"]
    done = subprocess.run(
        [*command, "--rules", "rules.yaml"], stderr=theirs, stdout=subprocess.PIPE, check=True, cwd=tmp_path
    )
    os.close(theirs)
    assert b"13 denied" in done.stdout
    assert b"replaying" in os.read(ours, 65_536)
    os.close(ours)
