"""A server that gets only a part of a processor."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["starved"]

PERIOD_US = 100_000
VERSION_1, VERSION_2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


@contextmanager
def starved(pid: int, part: float) -> Iterator[str]:
    """While it has this part of one processor; how that is done, in words. Without control groups it is stopped and
    let go on, ten times a second."""
    quota_us = round(part * PERIOD_US)
    for mount, files in ((VERSION_1, _version_1(quota_us)), (VERSION_2, _version_2(quota_us))):
        group = mount / f"limen-{uuid.uuid4().hex[:12]}"
        with suppress(OSError):
            group.mkdir()
            try:
                for name, text in files.items():
                    (group / name).write_text(text)
                (group / "cgroup.procs").write_text(str(pid))
            except OSError:
                group.rmdir()
                continue
            try:
                yield f"a quota of {part:.0%} of a processor"
            finally:
                with suppress(OSError):  # it may have ended
                    (mount / "cgroup.procs").write_text(str(pid))
                group.rmdir()
            return
    with _in_turns(pid, part):
        yield f"stopped for {1 - part:.0%} of the time"


def _version_1(quota_us: int) -> dict[str, str]:
    return {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}


def _version_2(quota_us: int) -> dict[str, str]:
    return {"cpu.max": f"{quota_us} {PERIOD_US}"}


@contextmanager
def _in_turns(pid: int, part: float) -> Iterator[None]:
    ends = threading.Event()

    def run() -> None:
        while not ends.wait(part * PERIOD_US / 1_000_000):
            os.kill(pid, signal.SIGSTOP)
            ends.wait((1 - part) * PERIOD_US / 1_000_000)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    ends.set()
    thread.join()
