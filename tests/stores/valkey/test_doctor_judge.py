"""What a server says, and what that means: everything that real servers are not made to say in a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from limen.stores.valkey.doctor.facts import Facts
from limen.stores.valkey.doctor.finding import Finding, worst
from limen.stores.valkey.doctor.judge import judge
from limen.stores.valkey.doctor.needs import NEEDS, acl_rules
from limen.stores.valkey.script import the_script

ROOT = Path(__file__).resolve().parents[3]
FIT: dict[str, Any] = {
    "server": "valkey://10.0.0.1:6379/0",
    "hello": {"server": "valkey", "version": "9.1.2", "mode": "standalone", "role": "master"},
    "info": {"maxmemory": "1000", "maxmemory_policy": "volatile-ttl", "aof_enabled": "1", "connected_slaves": "0"},
    "config": {"save": "", "min-replicas-to-write": "0"},
    "answers_ms": 0.2,
}


def found(check: str, deadline_ms: float = 5.0, **facts: Any) -> Finding:
    (finding,) = [each for each in judge(Facts(**{**FIT, **facts}), deadline_ms) if each.check == check]
    return finding


def hello(server: str, version: str) -> dict[str, str]:
    return {**FIT["hello"], "server": server, "version": version}


def test_a_server_that_is_fit() -> None:
    assert worst(judge(Facts(**FIT), 5.0)) == "ok"


@pytest.mark.parametrize(("answers_ms", "status"), [(0.1, "ok"), (2.5, "ok"), (2.6, "warn"), (5.1, "fail")])
def test_an_answer_is_held_against_the_deadline(answers_ms: float, status: str) -> None:
    assert found("reachable", answers_ms=answers_ms).status == status
    assert found("reachable", deadline_ms=1000, answers_ms=answers_ms).status == "ok"


@pytest.mark.parametrize(
    ("ahead_s", "status", "word"),
    [(0.9, "ok", ""), (-1.0, "ok", ""), (1.5, "warn", "ahead"), (-3600, "warn", "behind")],
)
def test_clocks_may_differ_by_a_second(ahead_s: float, status: str, word: str) -> None:
    finding = found("clock", ahead_s=ahead_s)
    assert (finding.status, word in finding.sentence) == (status, True)


@pytest.mark.parametrize(
    ("server", "version", "status"),
    [
        ("redis", "5.0.14", "fail"),
        ("redis", "6.2.20", "fail"),
        ("redis", "7.0.15", "warn"),
        ("redis", "7.2.10", "warn"),
        ("redis", "7.2.11", "ok"),
        ("redis", "7.4.5", "warn"),
        ("redis", "8.0.4", "ok"),
        ("redis", "8.2.1", "warn"),
        ("redis", "8.2.2", "ok"),
        ("redis", "8.4.0", "ok"),
        ("valkey", "7.2.10", "warn"),
        ("valkey", "8.0.5", "warn"),
        ("valkey", "8.0.6", "ok"),
        ("valkey", "8.1.4", "ok"),
        ("valkey", "9.0.0", "ok"),
        ("dragonfly", "7.4.0", "ok"),
        ("", "", "fail"),
    ],
)
def test_versions_without_known_holes(server: str, version: str, status: str) -> None:
    assert found("version", hello=hello(server, version)).status == status


NOT_THE_COMMAND = [
    "NOPERM this user has no permissions to run the 'hset' command or its subcommand",
    "NOPERM this user has no permissions to run the 'hset' command",
    "NOPERM User limen has no permissions to run the 'hset' command",
]
NOT_THE_KEY = [
    "NOPERM this user has no permissions to access one of the keys used as arguments",
    "NOPERM No permissions to access a key",
    "NOPERM User limen has no permissions to access the 'limen{limen doctor}' key",
]


@pytest.mark.parametrize(
    ("said", "advice"),
    [*((line, "+hset") for line in NOT_THE_COMMAND), *((line, "~limen{*") for line in NOT_THE_KEY)],
)
def test_a_command_that_is_missing_is_named_with_what_to_add(said: str, advice: str) -> None:
    finding = found("permissions", refused={"HSET": said})
    assert (finding.status, "HSET" in finding.sentence) == ("fail", True)
    assert finding.advice.endswith(f": {advice}")


def test_without_info_decisions_are_the_same() -> None:
    said = {"INFO": "NOPERM User limen has no permissions to run the 'info' command"}
    facts = judge(Facts(**{**FIT, "info": {}, "config": {}, "refused": said}), 5.0)
    assert {each.check: each.status for each in facts if each.status != "ok"} == {"permissions": "warn"}
    assert not {"eviction", "persistence", "replicas"} & {each.check for each in facts}


def test_a_line_says_what_it_is_about_and_what_to_do() -> None:
    line = str(found("eviction", info={**FIT["info"], "maxmemory_policy": "allkeys-lru"}))
    assert line.startswith("warn  eviction     valkey://10.0.0.1:6379/0 has maxmemory-policy allkeys-lru: ")
    assert line.endswith("; set it to volatile-ttl")


# the list of rights


def test_the_file_and_the_page_that_ship_have_the_rights_that_are_needed() -> None:
    file = (ROOT / "deploy" / "store" / "users.acl").read_text()
    assert file.splitlines()[-1].endswith(f" {acl_rules()}")
    page = " ".join((ROOT / "docs" / "store.md").read_text().split())
    assert acl_rules() in page


def test_every_command_that_the_script_calls_is_in_the_list() -> None:
    called = set(re.findall(rb"call\('(\w+)'", the_script()))
    assert {name.decode() for name in called} <= {need.command for need in NEEDS}
    assert len({need.command for need in NEEDS}) == len(NEEDS)
