"""Real processes of Limen, and an upstream that counts what reaches it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

LIMEN = [sys.executable, "-c", "from limen.apps.cli import main; main()"]
NOTHING: Mapping[str, str] = {}


def without_settings() -> dict[str, str]:
    """The environment, but for what Limen would read there."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LIMEN_")}


class Running(NamedTuple):
    """A process of Limen, ready."""

    process: subprocess.Popen[str]
    lines: list[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def limen(tmp_path: Path, find_port: Callable[[], int]) -> Iterator[Callable[..., Running]]:
    """Start `limen COMMAND … --port N` and wait until it says that it is ready; all are stopped in the end."""
    started: list[subprocess.Popen[str]] = []

    def start(
        *arguments: str,
        ready: str,
        port: int | None = None,
        program: Sequence[str] = LIMEN,
        env: Mapping[str, str] = NOTHING,
    ) -> Running:
        port = port or find_port()
        with (tmp_path / f"stderr-{port}.txt").open("w") as errors:
            process = subprocess.Popen(
                [*program, *arguments, "--port", str(port)],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env={**without_settings(), "LIMEN_STATE": str(tmp_path / "state"), "LIMEN_DRAIN_S": "0", **env},
            )
        started.append(process)
        watchdog = threading.Timer(60, process.kill)  # a process that never gets ready must not hang the test
        watchdog.start()
        lines = []
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if ready in line:
                    return Running(process, lines, port)
        finally:
            watchdog.cancel()
        raise AssertionError((tmp_path / f"stderr-{port}.txt").read_text())

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)  # one that a test has stopped would not hear the other
            process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


class Upstream:
    """An HTTP server that answers 200 to everything and counts."""

    HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-type: text/plain\r\n\r\n"

    def __init__(self) -> None:
        self.requests = 0
        self.url = ""
        self._callers: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = asyncio.create_task(self._serve(reader, writer))
        self._callers.add(caller)
        caller.add_done_callback(self._callers.discard)

    async def close(self) -> None:
        for caller in list(self._callers):
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                writer.write(self.HEAD if request.startswith(b"HEAD ") else self.HEAD + b"ok\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    api = Upstream()
    server = await asyncio.start_server(api.accept, "127.0.0.1", 0)
    api.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield api
    server.close()
    await api.close()
