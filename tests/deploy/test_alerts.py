"""The alerts are valid, fire when they should and not otherwise, ask for what is exported, and have a page each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from limen import AsyncLimiter, Rule
from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.core.decision import Decision
from limen.core.delays import Delays

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
SCENES = Path(__file__).with_name("alerts_test.yml")
RUNBOOK = ROOT / "docs" / "runbook.md"
HOW_TO_GET = "promtool is not installed; on Debian, ./dev test fetches it"
TARGET_LABELS = {"job", "instance", "le"}
"""What Prometheus puts on every series itself, and on the buckets of histograms."""


@pytest.fixture
def promtool() -> str:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(ROOT / ".tools" / "bin")])
    program = shutil.which("promtool", path=path)
    if program:
        return program
    if os.environ.get("CI"):
        pytest.fail(HOW_TO_GET)
    pytest.skip(HOW_TO_GET)


def run(*command: str | Path) -> tuple[int, str]:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def scenes() -> Iterator[dict[str, Any]]:
    for test in yaml.safe_load(SCENES.read_text())["tests"]:
        yield from test["alert_rule_test"]


def test_the_rules_are_valid(promtool: str) -> None:
    status, said = run(promtool, "check", "rules", ALERTS)
    assert status == 0, said
    assert f"{len(alerts())} rules found" in said


def test_each_alert_fires_and_each_stays_silent_when_it_should(promtool: str) -> None:
    status, said = run(promtool, "test", "rules", SCENES)
    assert status == 0, said
    fire = {scene["alertname"] for scene in scenes() if scene["exp_alerts"]}
    silent = {scene["alertname"] for scene in scenes() if not scene["exp_alerts"]}
    assert fire == silent == set(alerts())


@pytest.mark.parametrize("name", alerts())
def test_the_scenes_tell_an_alert_that_never_fires_from_one_that_does(promtool: str, tmp_path: Path, name: str) -> None:
    document = yaml.safe_load(ALERTS.read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            if rule["alert"] == name:
                rule["expr"] = f"({rule['expr']}) > 1e9"
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(document))
    scenes = SCENES.read_text().replace("../../deploy/prometheus/alerts.yml", "alerts.yml")
    (tmp_path / "alerts_test.yml").write_text(scenes)
    status, said = run(promtool, "test", "rules", tmp_path / "alerts_test.yml")
    assert status != 0
    assert name in said


class Told(AsyncLimiter):
    """A limiter to which everything has happened."""

    store_shards: ClassVar = {"s:1": "down"}
    store_delays: ClassVar = {"s:1": Delays()}
    memory_lost: ClassVar = {"s:1": 1}


def exported() -> dict[str, set[str]]:
    """The labels of each series that a process exports once everything has happened to it."""
    observer = PrometheusObserver()
    observer.watch(Told("valkey://127.0.0.1:1", [Rule("r", limit="1/day"), Rule("s", limit="1/day")]))
    observer.on_decision(Decision(True, 2, 1, 0, 1, "r", "allowed", "store", degraded=True, shadow=("s",)), 1)
    observer.on_store_error("timeout", "s:1")
    observer.rules_broken({"r"})
    labels: dict[str, set[str]] = {}
    for family in observer.registry.collect():
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def test_alerts_ask_for_what_is_exported() -> None:
    known = exported()
    for name, rule in alerts().items():
        expr = rule["expr"]
        for metric, matchers in re.findall(r"\b(limen_\w+)(?:\{([^}]*)\})?", expr):
            assert metric in known, f"{name} asks for {metric}"
            for label in re.findall(r"(\w+)\s*[=!]", matchers):
                assert label in known[metric] | TARGET_LABELS, f"{name} asks for {metric}{{{label}}}"
        every = set().union(*(known[metric] for metric in re.findall(r"\blimen_\w+", expr))) | TARGET_LABELS
        for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", expr):
            assert {label.strip() for label in labels.split(",")} <= every, name


def test_each_alert_has_its_page_and_each_page_its_alert() -> None:
    pages = re.findall(r"^## (Limen\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert sorted(pages) == sorted(alerts())
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{name.lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


@pytest.mark.parametrize("name", alerts())
def test_each_page_says_what_is_noticed_what_it_is_what_to_do_and_when_it_ends(name: str) -> None:
    _, page = RUNBOOK.read_text().split(f"\n## {name}\n", 1)
    page = page.partition("\n## ")[0]
    for part in ("**Users notice**", "**It means**", "**Look**", "**Do**", "**It ends**"):
        assert part in page, part
