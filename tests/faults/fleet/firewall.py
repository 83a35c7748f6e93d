"""Packets that are lost, refused or answered with a reset, by iptables: on the ports of a test alone, and as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pytest

__all__ = ["Firewall"]

PROGRAM = shutil.which("iptables", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))
HOW_TO_GET = "iptables is needed, and the right to use it; on Debian, ./dev test as root fetches it"


class Firewall:
    """Rules of one test, told apart from all others by a comment; they are gone when it ends."""

    def __init__(self) -> None:
        self._comment = f"limen-{uuid.uuid4().hex[:12]}"
        self._rules: list[list[str]] = []
        if os.geteuid() or PROGRAM is None:
            pytest.fail(HOW_TO_GET) if os.environ.get("CI") else pytest.skip(HOW_TO_GET)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.heal()
        assert self._comment not in _iptables("-S"), "rules of a test stayed"

    def drop(self, *ports: int, per_cent: float = 100.0) -> None:
        """Packets to and from these ports are lost, all or by chance."""
        chance = (
            [] if per_cent >= 100 else ["-m", "statistic", "--mode", "random", "--probability", str(per_cent / 100)]
        )
        for port in ports:
            self._add("INPUT", "-p", "tcp", "--dport", str(port), *chance, "-j", "DROP")
            self._add("INPUT", "-p", "tcp", "--sport", str(port), *chance, "-j", "DROP")

    def reset(self, *ports: int) -> None:
        """Whatever is sent to these ports is answered with a reset."""
        for port in ports:
            self._add("INPUT", "-p", "tcp", "--dport", str(port), "-j", "REJECT", "--reject-with", "tcp-reset")

    def mute(self, group: int) -> None:
        """Nothing leaves the processes of a group any more."""
        self._add("OUTPUT", "-m", "owner", "--gid-owner", str(group), "-j", "DROP")

    def cut(self, group: int | None, ports: Sequence[int]) -> None:
        """What the processes of a group send to these ports is lost."""
        for port in ports:
            self._add(
                "OUTPUT", "-m", "owner", "--gid-owner", str(group), "-p", "tcp", "--dport", str(port), "-j", "DROP"
            )

    def part(self, source: str, port: int) -> None:
        """What comes from an address to this port is lost, and what goes back."""
        self._add("INPUT", "-p", "tcp", "-s", source, "--dport", str(port), "-j", "DROP")
        self._add("INPUT", "-p", "tcp", "-d", source, "--sport", str(port), "-j", "DROP")

    def heal(self) -> None:
        """All is as before."""
        while self._rules:
            _iptables("-D", *self._rules.pop())

    def _add(self, chain: str, *rule: str) -> None:
        added = [chain, *rule, "-m", "comment", "--comment", self._comment]
        _iptables("-A", *added)
        self._rules.append(added)


def _iptables(*arguments: str) -> str:
    assert PROGRAM is not None
    done = subprocess.run([PROGRAM, "-w", "10", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"iptables {' '.join(arguments)}: {done.stderr}"
    return done.stdout
