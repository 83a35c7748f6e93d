"""What can be said, set, scraped or imported is on its page, and what pages point at is there."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

import limen
import limen.errors
import limen.testing
from limen import AsyncLimiter
from limen.adapters.http import WRITERS
from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.apps.cli.app import app
from limen.core.decision import Decision
from limen.rules.match import BUILDERS
from limen.rules.model import Rule
from limen.rules.parse import rules_from_text

ROOT = Path(__file__).resolve().parents[2]


def flags() -> set[str]:
    commands = (app[name].assemble_argument_collection() for name in ("up", "gateway", "service"))
    names = {name for arguments in commands for each in arguments for name in each.names if name.startswith("--")}
    return {name for name in names if not name.startswith(("--empty-", "--no-"))}


def metrics() -> set[str]:
    observer = PrometheusObserver()
    observer.watch(AsyncLimiter("valkey://127.0.0.1:1"))
    found = list(observer.registry.collect())
    return {metric.name + ("_total" if metric.type == "counter" else "") for metric in found}


NAMED = {
    "docs/operate.md": flags(),
    "docs/metrics.md": metrics(),
    "docs/rules.md": set(inspect.signature(Rule).parameters) | set(BUILDERS),
    "docs/decisions.md": {*Decision._fields, "status", *WRITERS},
    "docs/python.md": set(limen.__all__) | set(limen.testing.__all__),
}


@pytest.mark.parametrize("of", NAMED)
def test_a_page_names_everything_that_belongs_on_it(of: str) -> None:
    assert missing(NAMED[of], (ROOT / of).read_text()) == []


def missing(names: Iterable[str], text: str) -> list[str]:
    return sorted(name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))


def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith("https://"):
            file, _, anchor = target.partition("#")
            linked = page.parent / file if file else page
            assert linked.is_file(), target
            assert not anchor or anchor in anchors(linked), target


def anchors(page: Path) -> set[str]:
    """The anchors that headings get where Markdown is shown."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_fence_is_closed(page: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
    assert all(fences[0::2])
    assert not any(fences[1::2])
    assert len(fences) % 2 == 0


def test_extras_that_are_named_exist(page: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {extra for found in re.findall(r"limen\[([\w,]+)\]", page.read_text()) for extra in found.split(",")}
    assert named <= set(project["optional-dependencies"])


def test_the_newest_change_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == project["version"]


def test_the_example_rules_are_valid() -> None:
    file = ROOT / "examples" / "rules.yaml"
    assert rules_from_text(file.read_bytes(), str(file))


def test_the_example_app_answers_with_its_limit() -> None:
    file = ROOT / "examples" / "fastapi_app.py"
    command = [sys.executable, "-W", "error", str(Path(__file__).with_name("run_block.py")), f"{file}:1"]
    done = subprocess.run(command, input=file.read_text(), text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
