"""As many commands as a server can answer, from redis-benchmark where it is installed, else from this process."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from bench.load import ask_all
from bench.questions import encoded

__all__ = ["KEYS", "KEY_HOLE", "TOOL", "Press", "press"]

TOOL = shutil.which("redis-benchmark")
KEY_HOLE = b"__rand_int__"
"""What is replaced by twelve digits in every command."""
KEYS = 100_000
CONNECTIONS = 50
PATIENCE_S = 120.0
COLUMNS_BEHIND_NAME = 7


class Press(NamedTuple):
    """One kind of command, and how many of them a connection sends before it reads."""

    words: tuple[bytes, ...]
    pipeline: int


def press(port: int, wanted: Press, count: int) -> float:
    """Ask `count` times on 50 connections; the seconds that it took.

    An argument with a zero byte cannot be given to a program, so such a command is sent by this process.
    """
    if TOOL and not any(b"\0" in word for word in wanted.words):
        return _by_tool(port, wanted, count)
    return _by_hand(port, wanted, count)


def _by_tool(port: int, wanted: Press, count: int) -> float:
    numbers = {"-p": port, "-n": count, "-c": CONNECTIONS, "-P": wanted.pipeline, "-r": KEYS}
    options = [str(word).encode() for pair in numbers.items() for word in pair]
    command = [str(TOOL).encode(), *options, b"--csv", *wanted.words]
    told = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
    if b"Error from server" in told.stdout:
        raise SystemExit(f"bench: {told.stdout.decode(errors='replace'):.300}")
    rate = told.stdout.rsplit(b'","', COLUMNS_BEHIND_NAME)[1]  # the name is the command and may hold anything
    return count / float(rate)


def _by_hand(port: int, wanted: Press, count: int) -> float:
    began = time.perf_counter()
    deque(ask_all(port, _filled(wanted.words, count), wanted.pipeline, CONNECTIONS), maxlen=0)
    return time.perf_counter() - began


def _filled(words: tuple[bytes, ...], count: int) -> Iterator[bytes]:
    head, *rest = encoded(*words).split(KEY_HOLE)
    for _ in range(count):
        yield head + b"".join(b"%012d" % random.randrange(KEYS) + part for part in rest)
