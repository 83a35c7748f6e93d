"""A gateway process, as a test holds it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.faults.fleet.spec import Spec

__all__ = ["Gateway", "hurry"]

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
FIRST = -10
"""Niceness."""
FIRST_GROUP = 600_000_000
"""Each gateway is in a group of its own, as far as root may do that: packets are told apart by it."""


def hurry(pid: int) -> None:
    """Let a process go first, as far as root may do that: what else a machine does is not what is tested."""
    if not os.geteuid():
        os.setpriority(os.PRIO_PROCESS, pid, FIRST)


class Gateway:
    """Starts the process; `do` talks with it.

    Args:
        spec: what it is told.
    """

    def __init__(self, spec: Spec) -> None:
        self.number = spec.number
        self.spec = spec
        self.group = None if os.geteuid() else FIRST_GROUP + os.getpid() * 100 + spec.number
        self.frozen = False
        self._errors = Path(spec.folder) / f"gateway-{spec.number}.err"
        self._unread = b""
        command = [sys.executable, "-m", "tests.faults.fleet.worker", spec.dump()]
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, group=self.group
            )
        hurry(self.process.pid)

    def do(self, command: str, *arguments: Any, **named: Any) -> Any:
        """Send a command and wait for its answer."""
        self.ask(command, *arguments, **named)
        return self.answer()

    def ask(self, command: str, *arguments: Any, **named: Any) -> None:
        """Send a command. Each is to be followed by `answer`."""
        line = json.dumps({"do": command, "with": arguments, **named}) + "\n"
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What it answers to the earliest command that is not answered."""
        found = json.loads(self._line())
        if "error" in found:
            raise AssertionError(f"gateway {self.number}: {found['error']}")
        return found["found"]

    def freeze(self) -> None:
        """SIGSTOP."""
        self.frozen = True
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)
        self.frozen = False

    def kill(self) -> None:
        """It is gone at once."""
        self.process.kill()
        self._end()

    def close(self) -> str:
        """End it in order; what it wrote to its standard error."""
        if self.process.poll() is None:
            self.do("close")
            assert self.process.stdin is not None
            self.process.stdin.close()
            self._end()
        return self._errors.read_text()

    def _end(self) -> None:
        self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        give_up = time.monotonic() + PATIENCE_S
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, give_up - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 65_536) if ready else b""
            if not more:
                raise AssertionError(f"gateway {self.number} says nothing: {self._errors.read_text()[-4000:]}")
            self._unread += more
        line, self._unread = self._unread.split(b"\n", 1)
        return line
