"""The documentation as data: its fenced blocks, and a `limen up` for each page to run them against."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest
import redis

from limen.apps.demo import DEMO_RULE

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FREE_PORTS = ("8080", "8090", "8081", "8091", "9091")
"""Ports that pages name and that are replaced by free ones; 6379 is replaced by that of the embedded store."""
FOREVER = re.compile(r"^limen (up|gateway|service)\b", re.MULTILINE)
READY = re.compile(r"^(gateway|service) on http|^curl .*--next")
"""The last line that such a command prints when it has started."""
PATIENCE_S = 60


class Block(NamedTuple):
    """A fenced block."""

    page: Path
    line: int
    """Of its first line of text, from 1."""
    kind: str
    text: str
    before: str
    """The text of the ```bash block that stands before it on the page."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class World:
    """A running `limen up`, and for each page a folder with the examples: what its reader has at hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = self._home = folder
        self._page: Path | None = None
        self._printed: dict[str, str] = {}
        self._ports = {name: free_port() for name in FREE_PORTS}
        _make_shim(folder / "bin")
        self._up = self._start("limen up --port 8080 --admin-port 8090", folder)
        self.banner = _until_ready(self._up)
        self._ports["6379"] = re.findall(r"valkey://127\.0\.0\.1:(\d+)", self.banner)[0]

    def close(self) -> None:
        _stop(self._up)

    def turn_to(self, page: Path) -> None:
        """Each page finds `limen up` as it is when it has just begun."""
        if page == self._page:
            return
        self._page, self._printed = page, {}
        self.folder = self._home / page.stem
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        (self.folder / ".limen").symlink_to(self._home / ".limen")
        with redis.Redis(port=int(self._ports["6379"])) as store:
            store.flushall()
        self._unsay()
        for rule in self._admin("GET", "/admin/rules")["rules"]:
            self._admin("DELETE", f"/admin/rules/{rule['id']}?confirm=1&reason=another+page")
        self._admin("PUT", "/admin/rules/demo?confirm=1&reason=another+page", DEMO_RULE)

    def _unsay(self) -> None:
        """Nothing is said of single clients."""
        for block in self._admin("GET", "/admin/blocks")["blocks"]:
            self._admin("DELETE", f"/admin/blocks/{block['id']}")
        for flag in self._admin("GET", "/admin/flags")["flags"]:
            self._admin("DELETE", f"/admin/clients/{flag['client']}/flags")
        for each in self._admin("GET", "/admin/overrides")["overrides"]:
            whose = f"clients/{each['client']}" if "client" in each else f"plans/{each['plan']}"
            self._admin("DELETE", f"/admin/overrides/{each['rule']}/{whose}")

    def printed(self, text: str) -> str:
        """What a ```bash block prints. Each is run once."""
        if text not in self._printed:
            self._printed[text] = self._run_until_ready(text) if FOREVER.search(text) else self._run_bash(text)
        return self._printed[text]

    def run(self, *command: str, text: str = "") -> str:
        """Run a command to its end, with `text` as its input; what it prints. It must succeed."""
        done = subprocess.run(
            command, input=self._here(text), cwd=self.folder, env=self._environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def _run_bash(self, text: str) -> str:
        return self.run("bash", "-euo", "pipefail", "-c", self._here(text))

    def _run_until_ready(self, text: str) -> str:
        """Start what only a signal ends, and end it when it is ready. Another `limen up` has a folder and ports."""
        folder = self.folder
        if "limen up" in text:
            folder = self.folder / f"up-{len(self._printed)}"
            shutil.copytree(ROOT / "examples", folder / "examples")
            text = f"export LIMEN_PORT={free_port()} LIMEN_ADMIN_PORT={free_port()}\n{text}"
        process = self._start(text, folder)
        printed = _until_ready(process)
        assert _stop(process) in (0, -signal.SIGTERM), printed
        return printed

    def _start(self, text: str, folder: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", self._here(text)], cwd=folder, env=self._environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def _here(self, text: str) -> str:
        """`text` with the ports of this world."""
        return re.sub(r"(?<!\d)\d{4}(?!\d)", lambda found: self._ports.get(found[0], found[0]), text)

    def _admin(self, method: str, path: str, document: object = None) -> Any:
        body = None if document is None else json.dumps(document).encode()
        with urlopen(Request(self._here(f"http://127.0.0.1:8090{path}"), body, method=method)) as answer:
            return json.loads(answer.read() or "null")

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LIMEN_")}
        # What one page asks for is no traffic by which the changes of the next are judged.
        return {**kept, "LIMEN_SAMPLE_PERCENT": "0", "PATH": f"{self._home / 'bin'}:{os.environ['PATH']}"}


def _make_shim(folder: Path) -> None:
    """Make `limen` a command, whether or not it is installed."""
    folder.mkdir()
    shim = folder / "limen"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from limen.apps.cli import main; main()" "$@"\n')
    shim.chmod(0o755)


def _until_ready(process: subprocess.Popen[str]) -> str:
    printed = ""
    for line in process.stdout or ():
        printed += line
        if READY.search(line):
            return printed
    _stop(process)
    raise AssertionError(printed)


def _stop(process: subprocess.Popen[str]) -> int:
    """End everything that a command started; its exit status."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    return process.returncode


def free_port() -> str:
    """By chance, and below the ports of outgoing calls: other tests look at the same time."""
    while True:
        port = random.SystemRandom().randrange(12_000, 20_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return str(port)


def blocks_of(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    before = ""
    for found in FENCE.finditer(text):
        inside = re.sub(f"^{found[1]}", "", found[3], flags=re.MULTILINE)
        yield Block(page, text.count("\n", 0, found.start()) + 2, found[2], inside, before)
        before = inside if found[2] == "bash" else before


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run for each block, named by file and line, and for each page."""
    if "block" in metafunc.fixturenames:
        metafunc.parametrize("block", [block for page in PAGES for block in blocks_of(page)], ids=str)
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.fixture(scope="session")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("docs"))
    yield world
    world.close()


@pytest.fixture
def world(_world: World, block: Block) -> World:
    """What the reader of the block's page has at hand."""
    _world.turn_to(block.page)
    return _world
