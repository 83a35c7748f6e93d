"""`limen up`: what a newcomer sees, and what is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from limen.apps.cli import app

COMMANDS = 3


@pytest.fixture
def up(limen: Callable[..., Any], find_port: Callable[[], int]) -> Any:
    return limen("up", "--admin-port", str(find_port()), ready="--next")


def pasted(command: str) -> str:
    """What a shell prints for a command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.replace("\r\n", "\n")


def test_its_three_commands_show_a_200_a_429_and_a_rule_change(up: Any) -> None:
    first, spent, changed = [line for line in up.lines if line.startswith("curl ")]

    assert pasted(first).startswith("HTTP/1.1 200 OK\n")
    answers = pasted(spent)
    assert answers.count("HTTP/1.1 200 OK") == 4
    assert "\nratelimit: " in answers
    refused = answers[answers.index("HTTP/1.1 429") :]
    assert "\nretry-after: " in refused
    assert "application/problem+json" in refused
    after = pasted(changed)
    assert "HTTP/1.1 200 OK\n" in after
    assert "\nx-ratelimit-limit: 100\n" in after


def test_ctrl_c_leaves_no_process_and_no_port(up: Any, tmp_path: Path) -> None:
    family = children_of(up.process.pid)
    assert family, "the embedded store is a process of its own"
    up.process.send_signal(signal.SIGINT)

    assert up.process.wait(20) == 0
    assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", up.port))
    assert "Traceback" not in (tmp_path / f"stderr-{up.port}.txt").read_text()


async def test_the_store_does_not_outlive_a_killed_parent(up: Any, until: Callable[..., Awaitable[None]]) -> None:
    family = children_of(up.process.pid)
    up.process.kill()
    await until(lambda: not any(is_running(pid) for pid in family))


def test_a_busy_port_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        assert app.run(["up", "--port", port, "--data", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert port in said
    assert len(said.splitlines()) == 1


def children_of(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except (ProcessLookupError, FileNotFoundError):
        return False
