"""`limen rules test`: what rules do, tried offline: what passes, what fails and why, and which rules are odd."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from limen.apps.cli import app
from tests.apps.outcome import Outcome

Run = Callable[..., Outcome]

RULES = """\
rules:
  - id: search
    match: {methods: [GET], path: /v1/search/**, plan: [free]}
    limit: 100/minute
    cost: {default: 1, when: [{path: /v1/search/deep, cost: 10}]}
  - id: login
    match: {methods: [POST], path: /login}
    key_by: [ip]
    limit: 5/minute burst 10
    tags: [auth]
  - id: trial
    match: {path: /v1/**}
    limit: 2/minute
    mode: shadow
  - {id: berlin, match: {path: /quota}, limit: 3/day Europe/Berlin}
  - {id: closed, match: {path: /closed}, limit: 0/minute}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Write files into an empty folder and run a command there."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LIMEN_"):
            monkeypatch.delenv(name)

    def go(*arguments: str, **files: str) -> Outcome:
        for name, text in files.items():
            Path(f"{name}.yaml").write_text(text)
        capsys.readouterr()
        status = app.run(("rules", "test", *arguments))
        return Outcome(status, *capsys.readouterr())

    return go


def tried(run: Run, *fields: str, status: int) -> list[str]:
    """What is printed about one test."""
    outcome = run("tests.yaml", rules=RULES, tests="rules: rules.yaml\ntests:\n  - " + "\n    ".join(fields))
    assert outcome.status == status, outcome.err or outcome.out
    return outcome.out.splitlines()


SEARCH = "request: {path: /v1/search/deep, client: acme, plan: free}"


@pytest.mark.parametrize(
    "fields",
    [
        [
            SEARCH,
            "matches: [search, trial]",
            "cost: {search: 10, trial: 1}",
            "outcome: allowed",
            "remaining: {search: 90}",
        ],
        ["request: {path: /other}", "matches: []", "outcome: allowed"],
        ["request: {path: /closed, client: acme}", "outcome: denied", "by: closed", "remaining: 0"],
        [SEARCH, "traffic: {times: 11}", "allowed: 10", "denied: 1", "by: [search]", "shadow: trial"],
        [SEARCH, "traffic: {rate: 10/second, for: 1m}", "allowed: at most 20"],
        [
            "request: {client: acme, rule: search, cost: 60}",
            "traffic: {times: 2, every: 36s}",
            "allowed: 2",
            "remaining: 40",
        ],
        ["request: {client: acme, rule: search, cost: 60}", "traffic: {times: 2, every: 11.999s}", "allowed: 1"],
        [
            "traffic:",
            "  - {request: {method: POST, path: /login, ip: 192.0.2.7}, times: 20}",
            "  - {request: {method: POST, path: /login, ip: 192.0.2.8}, times: 20}",
            "allowed: exactly 20",
        ],
        [
            "at: 2026-06-30T21:59:59+00:00",
            "request: {path: /quota, client: a}",
            "traffic: {times: 8, every: 250ms}",
            "allowed: 6",
        ],
        [
            "at: 2026-06-30T21:00:00+00:00",
            "request: {path: /quota, client: a}",
            "traffic: {times: 8, every: 250ms}",
            "allowed: 3",
        ],
    ],
)
def test_what_is_so_passes(run: Run, fields: list[str]) -> None:
    assert tried(run, *fields, status=0)[-1] == "1 test, 0 failed"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            ["request: {path: /v1/search, client: acme, plan: gold}", "matches: [search, trial]"],
            "matches: expected search, trial; found trial; search: its plan must be free, and the request has gold",
        ),
        (["request: {path: /v1/x}", "matches: []"], "matches: expected none; found trial"),
        ([SEARCH, "cost: {search: 1}"], "cost: expected search 1; found search 10"),
        (
            [SEARCH, "cost: {login: 1}"],
            "found login does not apply: its path is /login, that of the request is /v1/search/deep",
        ),
        (["request: {path: /other}", "cost: 1"], "cost: expected 1; found no rule applies"),
        ([SEARCH, "outcome: denied"], "outcome: expected denied; found allowed"),
        (["request: {path: /closed}", "outcome: allowed"], "outcome: expected allowed; found denied by closed"),
        (["request: {path: /closed}", "by: search"], "by: expected search; found closed"),
        ([SEARCH, "shadow: [trial]"], "shadow: expected trial; found none"),
        ([SEARCH, "remaining: at most 89"], "remaining: expected at most 89; found 90"),
        (["request: {path: /other}", "remaining: 1"], "remaining: expected exactly 1; found nothing that is counted"),
        ([SEARCH, "remaining: {search: at least 95}"], "remaining: expected search at least 95; found search 90"),
        ([SEARCH, "traffic: {times: 20}", "allowed: at least 11"], "allowed: expected at least 11; found 10 of 20"),
        ([SEARCH, "traffic: {times: 20}", "denied: 0 to 9"], "denied: expected at most 9; found 10 of 20"),
    ],
)
def test_what_is_not_so_is_told_with_its_line(run: Run, fields: list[str], told: str) -> None:
    first, second, *_, last = tried(run, "name: as promised", *fields, status=1)
    assert first == "FAIL  as promised  (tests.yaml:3)"
    assert told in second
    assert second.endswith(f"(tests.yaml:{3 + len(fields)})")
    assert last == "1 test, 1 failed"


def test_json_tells_the_same(run: Run) -> None:
    tests = f"rules: rules.yaml\ntests:\n  - {SEARCH}\n    outcome: denied\n  - {SEARCH}\n    outcome: allowed\n"
    outcome = run("tests.yaml", "--json", rules=RULES, tests=tests)
    failure = {"field": "outcome", "expected": "denied", "found": "allowed", "line": 4}
    test = {"name": "GET /v1/search/deep by acme", "file": "tests.yaml"}
    assert outcome.status == 1
    assert outcome.json == {
        "failed": 1,
        "tests": [{**test, "line": 3, "failures": [failure]}, {**test, "line": 5, "failures": []}],
        "warnings": [],
        "untested": ["login", "berlin", "closed"],
    }


def test_junit_tells_the_same_to_build_servers(run: Run) -> None:
    tests = f'rules: rules.yaml\ntests:\n  - name: "<&\\u0001"\n    {SEARCH}\n    outcome: denied\n'
    assert run("tests.yaml", "--junit", "out.xml", rules=RULES, tests=tests).status == 1
    suite = ElementTree.parse("out.xml").getroot()
    (case,) = suite
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert (case.get("classname"), case.get("name")) == ("tests.yaml", "<&?")
    assert [failure.get("message") for failure in case] == ["outcome: expected denied; found allowed"]


def test_rules_are_in_the_file_or_named_by_it_or_given(run: Run) -> None:
    tests = f"tests:\n  - {SEARCH}\n    outcome: allowed\n"
    assert run("t.yaml", t=RULES + tests).status == 0
    assert run("t.yaml", "--rules", "r.yaml", t=tests, r=RULES).status == 0
    Path("sub").mkdir()
    Path("sub/t.yaml").write_text("rules: ../r.yaml\n" + tests)
    assert run("sub/t.yaml", "t.yaml", "--rules", "r.yaml").out.endswith("2 tests, 0 failed\n") is False
    assert run("sub/t.yaml").status == 0


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        (["t.yaml"], "tests: []", "t.yaml does not say which rules it tests"),
        (["t.yaml", "--rules", "r.yaml"], "rules: r.yaml\ntests: []", "leave out --rules"),
        (["t.yaml"], "rules: away.yaml\ntests: []", "away.yaml: No such file"),
        (["away.yaml"], "", "away.yaml: No such file"),
        (["t.yaml"], "rules:\n  - id: a\n    limit: 5/minuet\n", "t.yaml:3: rule 'a', field 'limit'"),
        (
            ["t.yaml"],
            "rules: r.yaml\ntests:\n  - request: {rule: both, client: a}\n    outcome: allowed",
            "t.yaml:3: a rule keyed by",
        ),
        ([], "", "FILE"),
    ],
)
def test_what_cannot_be_tried_is_status_2(run: Run, arguments: list[str], text: str, words: str) -> None:
    both = "rules: [{id: both, key_by: [client, plan], limit: 5/minute}]"
    outcome = run(*arguments, t=text, r=both)
    assert (outcome.status, outcome.out) == (2, "")
    assert words in outcome.err


def test_the_setting_of_limen_up_is_not_what_is_tested(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMEN_RULES", "away.yaml")
    assert run("t.yaml", t=f"{RULES}tests:\n  - {SEARCH}\n    outcome: allowed\n").status == 0


def test_rules_that_never_decide_are_warnings_and_with_strict_a_failure(run: Run) -> None:
    wide = "  - {id: all, match: {path: /v1/**}, limit: 5/minute}\n"
    rules = f"rules:\n{wide}  - {{id: deep, match: {{path: /v1/deep}}, limit: 9/minute}}\n"
    outcome = run("r.yaml", r=rules)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "warning: r.yaml:3: rule 'deep' never decides: rule 'all' covers all of its requests, "
        "and what that lets through is within this limit",
        "0 tests, 0 failed, 1 warning",
    ]
    assert run("r.yaml", "--strict").status == 1
    (warning,) = run("r.yaml", "--json").json["warnings"]
    assert (warning["kind"], warning["rule"], warning["other"], warning["line"]) == ("shadowed", "deep", "all", 3)


def test_every_test_begins_with_full_buckets(run: Run) -> None:
    twice = "  - request: {client: acme, rule: login, cost: 10}\n    outcome: allowed\n" * 2
    assert run("t.yaml", t=f"{RULES}tests:\n{twice}").status == 0


def test_rules_that_no_test_meets_are_named(run: Run) -> None:
    streams = "[{request: {path: /closed}, times: 1}, {request: {method: POST, path: /login, ip: 192.0.2.7}, times: 1}]"
    outcome = run("t.yaml", t=f"{RULES}tests:\n  - traffic: {streams}\n    denied: 1\n")
    assert outcome.out.splitlines()[1:] == ["no test meets search, trial, berlin", "1 test, 0 failed"]


def test_the_schema_is_printed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["rules", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"].keys() == {"rules", "tests"}
