"""Cutting servers off on one machine, with iptables, as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterable

from limen.errors import SettingsError

__all__ = ["Firewall"]

SBIN = "/usr/sbin:/sbin"
PATIENCE_S = 10


class Firewall:
    """Rules of its own, known by a comment; nobody else's are touched."""

    def __init__(self) -> None:
        self._comment = f"limen-{uuid.uuid4().hex[:12]}"
        self._rules: list[list[str]] = []

    @staticmethod
    def is_there() -> bool:
        return os.geteuid() == 0 and _program() is not None

    def drop(self, ports: Iterable[int], source: str) -> None:
        """What goes to or comes from these ports or this address is lost.

        Raises:
            SettingsError: not root, or there is no iptables.
        """
        for port in ports:
            self._add("INPUT", "-i", "lo", "-p", "tcp", "--dport", str(port), "-j", "DROP")
            self._add("INPUT", "-i", "lo", "-p", "tcp", "--sport", str(port), "-j", "DROP")
        self._add("INPUT", "-i", "lo", "-p", "tcp", "-s", source, "-j", "DROP")
        self._add("INPUT", "-i", "lo", "-p", "tcp", "-d", source, "-j", "DROP")

    def heal(self) -> None:
        """Take its rules away."""
        while self._rules:
            _iptables("-D", *self._rules[-1])
            self._rules.pop()

    def _add(self, *rule: str) -> None:
        added = [*rule, "-m", "comment", "--comment", self._comment]
        _iptables("-A", *added)
        self._rules.append(added)


def _program() -> str | None:
    return shutil.which("iptables", path=os.pathsep.join([os.environ.get("PATH", os.defpath), SBIN]))


def _iptables(*arguments: str) -> None:
    if not Firewall.is_there():
        raise SettingsError("to cut a server off needs root and iptables; without them hang() it, or use a FaultProxy")
    command = [_program() or "iptables", "-w", str(PATIENCE_S), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SettingsError(f"{' '.join(command)}: {done.stderr.strip()}")
