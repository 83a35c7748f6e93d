"""A real Redis 7 beside the embedded Valkey: what is promised for both is tested on both."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["redis_server"]

TOOLS = Path(__file__).resolve().parents[1] / ".tools" / "bin"
"""Where `./dev test` puts what the machine does not have."""
HOW_TO_GET = "redis-server is not installed; on Debian, ./dev test as root fetches it"
PATIENCE_S = 20.0


@contextlib.contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[int]:
    """Run `redis-server --OPTION VALUE…` in a folder; its port on 127.0.0.1.

    It keeps nothing on disk unless told to, and listens by TLS alone when it is given `--tls-cert-file`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    process, port = _start(_program(), folder, options)
    try:
        yield port
    finally:
        _stop(process)


def _program() -> str:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(TOOLS)])
    program = shutil.which("redis-server", path=path)
    if program:
        return program
    if os.environ.get("CI"):
        pytest.fail(HOW_TO_GET)
    pytest.skip(HOW_TO_GET)


def _start(program: str, folder: Path, options: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], int]:
    """A server that accepts connections. Another process may take the port first: then it is another port."""
    log = folder / "redis.log"
    for _ in range(3):
        port = _port_nobody_uses()
        where = ["--port", "0", "--tls-port"] if "--tls-cert-file" in options else ["--port"]
        command = [program, *where, str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder), *options]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if _accepts(process, log):
            return process, port
        _stop(process)
    raise AssertionError(f"redis-server did not start: {log.read_text()}")


def _accepts(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether it came so far. It says so itself: somebody else's server may answer on the port."""
    give_up = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < give_up:
        if b"Ready to accept connections" in log.read_bytes():
            return True
        time.sleep(0.01)  # the pace of looking, not a wait for time
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # told politely, it would wait for its replicas; and it has nothing to lose
    process.wait(PATIENCE_S)


def _port_nobody_uses() -> int:
    """By chance, and below the ports of outgoing calls."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
